// Heat that spreads along a rod, over all GPUs. Each computes its part of the rod and needs of the others' parts only
// the cells beside its own, so that little crosses the links; and what does, while the kernels run.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/producer.hpp"

using namespace linkwise;
using namespace linkwise::proactive;

namespace {

constexpr std::uint64_t cells = 1 << 20, of_block = 1024;
constexpr int steps = 20;

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

}  // namespace

int main() {
  // Real GPUs where there are some; otherwise four virtual ones, on which races and wrong mappings are errors.
  const int real = count_cuda_gpus(nullptr);
  const std::unique_ptr<Runtime> runtime = real > 0 ? open_gpus() : open_virtual_gpus(4);
  const std::uint64_t gpus = real > 0 ? real : 4, part = cells / gpus / of_block * of_block;
  std::vector<int> all(gpus);
  std::iota(all.begin(), all.end(), 0);
  const auto cut = [&](std::uint64_t g) { return g == gpus ? cells : g * part; };

  // One array is read while the other is made: two regions in turn.
  Region<double> rods[2] = {{*runtime, all, cells, "rod"}, {*runtime, all, cells, "next rod"}};
  for (Region<double>& rod : rods)
    for (std::uint64_t g = 0; g < gpus; ++g) {
      const std::uint64_t first = cut(g), last = cut(g + 1);
      rod.need(all[g], {(first > 0 ? first - 1 : first) * sizeof(double), first * sizeof(double)});
      rod.need(all[g], {last * sizeof(double), (last < cells ? last + 1 : last) * sizeof(double)});
    }
  rods[0].fill_each([](std::uint64_t i) { return i == cells / 2 ? 1.0 : 0.0; });

  std::vector<Producer<double>> producers[2];  // of each region, one for each GPU
  for (int r = 0; r < 2; ++r)
    for (std::uint64_t g = 0; g < gpus; ++g) {
      const ByteRange mine{cut(g) * sizeof(double), cut(g + 1) * sizeof(double)};
      const auto blocks = static_cast<std::uint32_t>((cut(g + 1) - cut(g) + of_block - 1) / of_block);
      producers[r].emplace_back(
          rods[r], all[g], Mapping::contiguous(blocks, rods[r].bytes(), of_block * sizeof(double), mine), AgentPlan{});
    }

  for (int step = 0; step < steps; ++step) {
    Region<double>& now = rods[step % 2];
    Region<double>& next = rods[1 - step % 2];
    for (std::uint64_t g = 0; g < gpus; ++g)
      producers[1 - step % 2][g].launch(Spread{now.data(all[g]), cut(g), cut(g + 1)}, {now.mirror(all[g])},
                                        {.memory_bytes = 16.0 * static_cast<double>(cut(g + 1) - cut(g))});
    next.flush();
  }
  rods[steps % 2].wait();

  // Heat is neither made nor lost; each GPU has its own part of it.
  double total = 0;
  std::vector<double> rod(cells);
  for (std::uint64_t g = 0; g < gpus; ++g) {
    rods[steps % 2].fetch(all[g], rod.data(), rods[steps % 2].bytes());
    total += std::accumulate(rod.begin() + static_cast<long>(cut(g)), rod.begin() + static_cast<long>(cut(g + 1)), 0.0);
  }
  std::printf("%d steps on %d %s GPUs: heat %.12f\n", steps, static_cast<int>(gpus), real > 0 ? "real" : "virtual",
              total);
  return std::abs(total - 1) < 1e-12 ? 0 : 1;
}
