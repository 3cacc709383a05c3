// Model-based iterative reconstruction of parallel-beam tomography: the residual of the sinogram by views, then the
// image by rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "alternating.hpp"
#include "linkwise/error.hpp"

namespace linkwise::apps {
namespace {

constexpr int threads_of_block = 128;
constexpr int of_ray = 8;  // threads per ray, since rays are few and long
// One ray per thread group: several rays one after another would take as long on any number of GPUs.
constexpr int rays_of_block = threads_of_block / of_ray;

struct Geometry {
  int size, views, detectors;
};

// Interpolates linearly between two neighbours in a line of `count` values, `stride` apart; values outside are 0.
// Both neighbours are always loaded, from the start of the line if they are outside, so that no load waits for a
// branch.
LINKWISE_HOST_DEVICE inline float between(const float* line, int count, std::int64_t stride, float at) {
  const float below = floorf(at);
  const int i = static_cast<int>(below);
  const bool has_low = i >= 0 && i < count, has_high = i + 1 >= 0 && i + 1 < count;
  const float low = line[has_low ? i * stride : 0], high = line[has_high ? (i + 1) * stride : 0];
  const float from = has_low ? low : 0, to = has_high ? high : 0;
  return from + (at - below) * (to - from);
}

// y - A x, for the views. A ray is traced row by row or column by column, whichever it crosses more steeply, with
// pixel values interpolated between neighbours (Joseph's projector).
struct ResidualKernel {
  static constexpr int threads = threads_of_block;
  Geometry geometry;
  const float* measured;  // of this GPU's part
  const float* image;
  const float* cosines;  // interleaved with the sines
  std::uint64_t first, last;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(first, last, rays_of_block);
    block.for_each_group<of_ray>(begin, end, [&](std::uint64_t ray, const auto& threads_of_ray) {
      const int view = static_cast<int>(ray / geometry.detectors);
      const float offset = static_cast<float>(ray % geometry.detectors) - 0.5F * (geometry.detectors - 1);
      const float sum = projection(view, offset, threads_of_ray);
      if (threads_of_ray.leads()) out.store(ray, measured[ray - first] - sum);
    });
  }

  template <typename Threads>
  [[nodiscard]] LINKWISE_HOST_DEVICE float projection(int view, float offset, const Threads& threads_of_ray) const {
    const int n = geometry.size;
    const float c = cosines[2 * view], s = cosines[2 * view + 1], middle = 0.5F * (n - 1);
    const bool through_rows = fabsf(c) >= fabsf(s);
    const float across = through_rows ? c : s, along = through_rows ? s : c;
    const std::int64_t line = through_rows ? n : 1, stride = through_rows ? 1 : n;
    // Points on the ray satisfy x · c + y · s = offset, relative to the middle of the image.
    const float slope = -along / across, in_middle = offset / across + middle;
    return threads_of_ray.sum(0, n, 0.0F, [&](std::uint64_t i) {
      return between(image + i * line, n, stride, (static_cast<float>(i) - middle) * slope + in_middle);
    }) / fabsf(across);
  }
};

struct ImageKernel {
  static constexpr int threads = threads_of_block;
  Geometry geometry;
  const float* image;
  const float* residual;
  const float* cosines;
  float step, smoothing;
  std::uint64_t first, last;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(first, last, threads_of_block);
    const int n = geometry.size;
    block.for_each(begin, end, [&](std::uint64_t pixel) {
      const int row = static_cast<int>(pixel / n), column = static_cast<int>(pixel % n);
      const float middle = 0.5F * (n - 1), x = column - middle, y = row - middle;
      float sum = 0;
      for (int view = 0; view < geometry.views; ++view) {
        const float at = x * cosines[2 * view] + y * cosines[2 * view + 1] + 0.5F * (geometry.detectors - 1);
        sum += between(residual + static_cast<std::int64_t>(view) * geometry.detectors, geometry.detectors, 1, at);
      }
      const float own = image[pixel];
      const auto difference = [&](int r, int c) {
        return r >= 0 && r < n && c >= 0 && c < n ? own - image[static_cast<std::int64_t>(r) * n + c] : 0;
      };
      sum -= smoothing * (difference(row - 1, column) + difference(row + 1, column) + difference(row, column - 1) +
                          difference(row, column + 1));
      const float improved = own + step * sum;
      out.store(pixel, improved > 0 ? improved : 0);
    });
  }
};

// A permutation of 0 to count - 1 in which neighbours are far apart.
std::vector<int> mixed(int count) {
  int step = std::max(static_cast<int>(0.618 * count), 1);
  while (std::gcd(step, count) != 1) ++step;
  std::vector<int> order(count);
  for (int i = 0; i < count; ++i) order[i] = static_cast<int>(static_cast<std::int64_t>(i) * step % count);
  return order;
}

class XrayCt final : public App {
 public:
  XrayCt(Team team, std::vector<std::uint64_t> view_cuts, const Sinogram& sinogram)
      : image_of_(std::move(team)),
        views_of_{image_of_.runtime, image_of_.gpus, std::move(view_cuts), image_of_.plan},
        geometry_{sinogram.size, sinogram.views, sinogram.detectors},
        sinogram_(sinogram),
        image_(image_of_, image_of_.cuts.back(), threads_of_block, "image"),
        residual_(views_of_, views_of_.cuts.back(), rays_of_block, "residual"),
        measured_(views_of_, "sinogram"),
        cosines_(views_of_, "angles") {
    // Views are not in the order of their angles: rays along rows and rays across them have different access
    // patterns, and so every GPU gets some of both.
    const std::vector<int> order = mixed(geometry_.views);
    std::vector<float> cosines, measured;
    for (const int view : order) {
      const double angle = M_PI * view / geometry_.views;
      cosines.push_back(static_cast<float>(std::cos(angle)));
      cosines.push_back(static_cast<float>(std::sin(angle)));
      if (sinogram.measured == nullptr) continue;
      const float* const of_view = sinogram.measured + static_cast<std::ptrdiff_t>(view) * geometry_.detectors;
      measured.insert(measured.end(), of_view, of_view + geometry_.detectors);
    }
    for (std::size_t g = 0; g < views_of_.gpus.size(); ++g) {
      const std::uint64_t first = views_of_.cuts[g], last = views_of_.cuts[g + 1];
      measured_.add(views_of_.gpus[g], measured.empty() ? nullptr : measured.data() + first,
                    (last - first) * sizeof(float));
      cosines_.add(views_of_.gpus[g], views_of_.runtime.estimating() ? nullptr : cosines.data(),
                   cosines.size() * sizeof(float));
    }
    image_.current().fill_each([](std::uint64_t) { return 0.0F; });
  }

  void run(int iterations) override {
    for (int i = 0; i < iterations; ++i) {
      Region<float>& image = image_.current();
      residual_.step(
          "residual",
          [&](std::size_t g, const float*) {
            return ResidualKernel{
                geometry_,         measured_.data<float>(g), image.data(views_of_.gpus[g]), cosines_.data<float>(g),
                views_of_.cuts[g], views_of_.cuts[g + 1]};
          },
          [&](std::size_t g) {
            return std::vector{measured_.view(g), cosines_.view(g), image.mirror(views_of_.gpus[g])};
          },
          [&](std::size_t g) { return price(views_of_, g, geometry_.size); });
      Region<float>& residual = residual_.current();
      image_.step(
          "image",
          [&](std::size_t g, const float* from) {
            return ImageKernel{geometry_,
                               from,
                               residual.data(image_of_.gpus[g]),
                               cosines_.data<float>(g),
                               sinogram_.step,
                               sinogram_.smoothing,
                               image_of_.cuts[g],
                               image_of_.cuts[g + 1]};
          },
          [&](std::size_t g) { return std::vector{cosines_.view(g), residual.mirror(image_of_.gpus[g])}; },
          [&](std::size_t g) { return price(image_of_, g, geometry_.views); });
    }
  }
  void fetch(int gpu, void* to, std::uint64_t bytes) override { image_.current().fetch(gpu, to, bytes); }
  void set_plan(const AgentPlan& plan) override {
    image_.check(plan);
    image_of_.plan = views_of_.plan = plan;
    image_.follow_plan();
    residual_.follow_plan();
  }
  void set_sends(Sends sends) override {
    image_.set_sends(sends);
    residual_.set_sends(sends);
  }
  void wait() override {
    image_.wait();
    residual_.wait();
  }

 private:
  // Neighbouring rays read neighbouring values, mostly from caches.
  static KernelPrice price(const Team& team, std::size_t g, int steps) {
    const auto made = static_cast<double>(team.cuts[g + 1] - team.cuts[g]);
    return {.memory_bytes = made * (8 + 2.0 * steps), .store_bytes = 256};
  }

  Team image_of_, views_of_;
  Geometry geometry_;
  Sinogram sinogram_;
  Alternating<float> image_, residual_;
  Parts measured_, cosines_;
  QuietEnd quiet_{image_of_.runtime};
};

}  // namespace

std::unique_ptr<App> make_xray_ct(Team team, std::vector<std::uint64_t> view_cuts, const Sinogram& sinogram) {
  if (sinogram.size < 1 || sinogram.views < 1 || sinogram.detectors < 1)
    throw UsageError("tomography takes at least one pixel, view and detector");
  team.check(static_cast<std::uint64_t>(sinogram.size) * sinogram.size);
  Team{team.runtime, team.gpus, view_cuts, team.plan}.check(static_cast<std::uint64_t>(sinogram.views) *
                                                            sinogram.detectors);
  return std::make_unique<XrayCt>(std::move(team), std::move(view_cuts), sinogram);
}

}  // namespace linkwise::apps
