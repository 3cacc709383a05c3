#include "alternating.hpp"
#include "linkwise/error.hpp"

namespace linkwise::apps {

void Team::check(std::uint64_t rows) const {
  if (gpus.empty()) throw UsageError("an app runs on at least one GPU");
  bool rising = cuts.size() == gpus.size() + 1 && cuts.front() == 0 && cuts.back() == rows;
  for (std::size_t c = 1; rising && c < cuts.size(); ++c) rising = cuts[c - 1] < cuts[c];
  if (!rising)
    throw UsageError("the parts of " + std::to_string(gpus.size()) + " GPUs are not all of " + std::to_string(rows) +
                     " rows, with at least one each; take fewer GPUs or more rows");
}

namespace {

constexpr int rows_of_block = 256;

struct JacobiKernel {
  static constexpr int threads = rows_of_block;
  const double* diagonals;  // of this GPU's rows
  const double* right_side;
  const double* x;
  std::uint64_t rows, first, last;
  int band;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(first, last, rows_of_block);
    block.for_each(begin, end, [&](std::uint64_t i) {
      const std::uint64_t own = i - first, in_part = last - first;
      double sum = load_once(right_side + own);
      for (int d = 0; d <= 2 * band; ++d) {
        const std::uint64_t j = i + d - band;  // wraps below 0, and is then too large
        if (d != band && j < rows) sum -= load_once(diagonals + d * in_part + own) * x[j];
      }
      out.store(i, sum / load_once(diagonals + band * in_part + own));
    });
  }
};

class Jacobi final : public App {
 public:
  Jacobi(Team team, const BandedSystem& system)
      : team_(std::move(team)),
        rows_(system.rows),
        band_(system.band),
        x_(team_, system.rows, rows_of_block, "x"),
        diagonals_(team_, "diagonals"),
        right_side_(team_, "right side") {
    team_.check(rows_);
    const int width = 2 * band_ + 1;
    for (std::size_t g = 0; g < team_.gpus.size(); ++g) {
      const std::uint64_t first = team_.cuts[g], last = team_.cuts[g + 1];
      std::vector<std::span<const std::byte>> parts;
      for (int d = 0; system.diagonals != nullptr && d < width; ++d)
        parts.push_back(std::as_bytes(std::span(system.diagonals + d * rows_ + first, last - first)));
      if (parts.empty()) diagonals_.add(team_.gpus[g], nullptr, (last - first) * width * sizeof(double));
      else diagonals_.add(team_.gpus[g], parts);
      right_side_.add(team_.gpus[g], system.right_side == nullptr ? nullptr : system.right_side + first,
                      (last - first) * sizeof(double));
      if (system.replicate) continue;
      const std::uint64_t below = first - std::min<std::uint64_t>(first, band_);
      x_.need(team_.gpus[g], {below * sizeof(double), std::min(last + band_, rows_) * sizeof(double)});
    }
    x_.current().fill_each([](std::uint64_t) { return 0.0; });
  }

  void run(int iterations) override {
    for (int i = 0; i < iterations; ++i)
      x_.step(
          "jacobi",
          [&](std::size_t g, const double* from) {
            return JacobiKernel{diagonals_.data<double>(g),
                                right_side_.data<double>(g),
                                from,
                                rows_,
                                team_.cuts[g],
                                team_.cuts[g + 1],
                                band_};
          },
          [&](std::size_t g) { return std::vector{diagonals_.view(g), right_side_.view(g)}; },
          [&](std::size_t g) {
            const auto rows = static_cast<double>(team_.cuts[g + 1] - team_.cuts[g]);
            return KernelPrice{.memory_bytes = rows * (2 * band_ + 4) * sizeof(double), .store_bytes = 256};
          });
  }
  void fetch(int gpu, void* to, std::uint64_t bytes) override { x_.current().fetch(gpu, to, bytes); }
  void set_plan(const AgentPlan& plan) override {
    x_.check(plan);
    team_.plan = plan;
    x_.follow_plan();
  }
  void set_sends(Sends sends) override { x_.set_sends(sends); }
  void wait() override { x_.wait(); }

 private:
  Team team_;
  std::uint64_t rows_;
  int band_;
  Alternating<double> x_;
  Parts diagonals_, right_side_;
  QuietEnd quiet_{team_.runtime};
};

}  // namespace

std::unique_ptr<App> make_jacobi(Team team, const BandedSystem& system) {
  team.check(system.rows);
  return std::make_unique<Jacobi>(std::move(team), system);
}

}  // namespace linkwise::apps
