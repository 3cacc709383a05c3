// Heat that spreads along a rod, over all GPUs. Each computes its part of the rod and needs of the others' parts only
// the cells beside its own, so that little crosses the links; and what does, while the kernels run.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/producer.hpp"
#include "linkwise/transfer/proactive/tuned_plans.hpp"

using linkwise::count_cuda_gpus;
using linkwise::Runtime;
using namespace linkwise::proactive;

namespace {

constexpr std::uint64_t cells = 1 << 20, of_block = 1024;

// The next step of cells [first, last): each takes a quarter of what its neighbours differ.
struct Spread {
  static constexpr int threads = 256;
  const double* now;
  std::uint64_t first, last;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(first, last, of_block);
    block.for_each(begin, end, [&](std::uint64_t i) {
      const double left = i > 0 ? now[i - 1] : now[i], right = i + 1 < cells ? now[i + 1] : now[i];
      out.store(i, now[i] + 0.25 * (left - 2 * now[i] + right));
    });
  }
};

// The rod, on so many GPUs.
class Rod {
 public:
  Rod(Runtime& runtime, int gpus, const AgentPlan& plan)
      : gpus_(numbered(gpus)), rods_{{runtime, gpus_, cells, "rod"}, {runtime, gpus_, cells, "next rod"}} {
    for (Region<double>& rod : rods_)
      for (const int gpu : gpus_) {
        const auto [first, last] = part(gpu);
        rod.need(gpu, {(first > 0 ? first - 1 : first) * sizeof(double), first * sizeof(double)});
        rod.need(gpu, {last * sizeof(double), (last < cells ? last + 1 : last) * sizeof(double)});
      }
    rods_[0].fill_each([](std::uint64_t i) { return i == cells / 2 ? 1.0 : 0.0; });
    for (int r = 0; r < 2; ++r)
      for (const int gpu : gpus_) {
        const auto [first, last] = part(gpu);
        const auto blocks = static_cast<std::uint32_t>((last - first + of_block - 1) / of_block);
        const ByteRange mine{first * sizeof(double), last * sizeof(double)};
        producers_[r].emplace_back(
            rods_[r], gpu, Mapping::contiguous(blocks, rods_[r].bytes(), of_block * sizeof(double), mine), plan);
      }
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step, now_ = 1 - now_) {
      const Region<double>& now = rods_[now_];
      Region<double>& next = rods_[1 - now_];
      for (const int gpu : gpus_) {
        const auto [first, last] = part(gpu);
        producers_[1 - now_][gpu].launch(Spread{now.data(gpu), first, last}, {now.mirror(gpu)},
                                         {.memory_bytes = 16.0 * static_cast<double>(last - first)});
      }
      next.flush();
    }
    rods_[now_].wait();
  }

  // Each GPU has its own part of it.
  double heat() {
    double total = 0;
    std::vector<double> rod(cells);
    for (const int gpu : gpus_) {
      const auto [first, last] = part(gpu);
      rods_[now_].fetch(gpu, rod.data(), rods_[now_].bytes());
      total = std::accumulate(rod.begin() + static_cast<long>(first), rod.begin() + static_cast<long>(last), total);
    }
    return total;
  }

 private:
  static std::vector<int> numbered(int gpus) {
    std::vector<int> numbers(gpus);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  [[nodiscard]] ByteRange part(std::uint64_t gpu) const {
    const std::uint64_t usual = cells / gpus_.size() / of_block * of_block;
    return {gpu * usual, gpu + 1 == gpus_.size() ? cells : (gpu + 1) * usual};
  }

  std::vector<int> gpus_;
  Region<double> rods_[2];                      // in turn: one is read while the other is made
  std::vector<Producer<double>> producers_[2];  // of each, one for each GPU
  int now_ = 0;
};

}  // namespace

int main() {
  // Real GPUs where there are some; otherwise four virtual ones, on which races and wrong mappings are errors.
  const int real = count_cuda_gpus(nullptr), gpus = real > 0 ? real : 4;
  const std::unique_ptr<Runtime> runtime = real > 0 ? open_gpus() : open_virtual_gpus(gpus);

  // The first run on a machine finds out which agent is best; later ones read it from a file.
  const auto seconds = [&](const AgentPlan& plan) {
    Rod rod(*runtime, gpus, plan);
    rod.run(2);
    runtime->clear_timeline();
    rod.run(2);
    return seconds_of_work(*runtime);
  };
  const AgentPlan plan = tuned_plan("heat in 2^20 cells on " + std::to_string(gpus) + " GPUs", seconds);

  Rod rod(*runtime, gpus, plan);
  rod.run(20);
  const double heat = rod.heat();  // is neither made nor lost
  std::printf("20 steps on %d %s GPUs by '%s': heat %.12f\n", gpus, real > 0 ? "real" : "virtual",
              plan.to_string().c_str(), heat);
  return std::abs(heat - 1) < 1e-12 ? 0 : 1;
}
