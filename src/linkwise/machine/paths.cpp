#include "linkwise/machine/paths.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace linkwise {
namespace {

constexpr double worth_it = 1.2;         // times the direct route's width, which a relay between GPUs has to exceed
constexpr double worth_leaving = 1.001;  // times the total rate: what dropping a carrier has to exceed
constexpr double least_helped = 0.02;    // of a GPU's part: no relay carries less
constexpr double equal_within = 1e-9;

double width_of(Topology& topology, Place from, Place to) {
  const std::vector<Use>* uses[] = {&topology.route(from, to).uses};
  return fair_rates(topology.resources(), uses).front();
}

Place end_of(int gpu, Traffic direction, bool source) {
  return (direction == Traffic::host_to_device) == source ? Place::host() : Place::gpu(gpu);
}

// What each carrier gets when all of them copy at once.
std::vector<double> rates_of(Topology& topology, const std::vector<int>& carriers, Traffic direction, bool pageable) {
  std::vector<const std::vector<Use>*> uses;
  for (const int gpu : carriers)
    uses.push_back(&topology.route(end_of(gpu, direction, true), end_of(gpu, direction, false), pageable).uses);
  return fair_rates(topology.resources(), uses);
}

}  // namespace

std::string to_string(const Path& path) {
  const auto end = [](Place place) { return place.is_gpu() ? std::to_string(place.index) : std::string("host"); };
  std::string text = end(path.from);
  for (const int gpu : path.over) text += "→" + std::to_string(gpu);
  text += "→" + end(path.to);
  const auto percent = static_cast<int>(std::lround(100 * path.fraction));
  return percent >= 100 ? text : text + " " + std::to_string(percent) + "%";
}

std::vector<Path> peer_relays(Topology& topology, const std::vector<int>& gpus) {
  const std::size_t n = gpus.size();
  struct Way {
    double width = 0;
    std::vector<int> over;
    // Width per hop, since every hop keeps a link busy.
    [[nodiscard]] double score() const { return width / static_cast<double>(over.size() + 1); }
  };
  std::vector<std::vector<Way>> straight(n, std::vector<Way>(n));
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (a != b) straight[a][b].width = width_of(topology, Place::gpu(gpus[a]), Place::gpu(gpus[b]));
  std::vector<std::vector<Way>> best = straight;
  // Allows one more intermediate GPU at a time (Floyd and Warshall's order); of equally good paths, the first is
  // kept.
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b || a == k || b == k || !topology.meet_at_the_host(gpus[a], gpus[b])) continue;
        Way way{std::min(best[a][k].width, best[k][b].width), best[a][k].over};
        way.over.push_back(gpus[k]);
        way.over.insert(way.over.end(), best[k][b].over.begin(), best[k][b].over.end());
        const bool is_better = best[a][b].over.empty() || way.score() > (1 + equal_within) * best[a][b].score();
        if (way.width > worth_it * straight[a][b].width && is_better) best[a][b] = std::move(way);
      }
  std::vector<Path> paths;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (!best[a][b].over.empty()) paths.push_back({Place::gpu(gpus[a]), Place::gpu(gpus[b]), best[a][b].over});
  return paths;
}

double even_host_rate(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable) {
  return static_cast<double>(gpus.size()) * std::ranges::min(rates_of(topology, gpus, direction, pageable));
}

HostShares best_host_shares(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable) {
  std::vector<int> carriers = gpus;
  std::vector<double> rates = rates_of(topology, carriers, direction, pageable);
  double sum = std::reduce(rates.begin(), rates.end());
  // Drops carriers that cost the others more than they carry themselves, the worst first: one at a time, or two where
  // only dropping both pays.
  while (carriers.size() > 1) {
    std::vector<int> best;
    std::vector<double> best_rates;
    double best_sum = worth_leaving * sum;
    for (std::size_t first = 0; first < carriers.size(); ++first)
      for (std::size_t second = first; second < carriers.size(); ++second) {
        std::vector<int> others;
        for (std::size_t c = 0; c < carriers.size(); ++c)
          if (c != first && c != second) others.push_back(carriers[c]);
        if (others.empty()) continue;
        std::vector<double> theirs = rates_of(topology, others, direction, pageable);
        const double together = std::reduce(theirs.begin(), theirs.end());
        if (together <= best_sum) continue;
        best_sum = together;
        best = std::move(others);
        best_rates = std::move(theirs);
      }
    if (best.empty()) break;
    carriers = std::move(best);
    rates = std::move(best_rates);
    sum = best_sum;
  }
  HostShares shares{std::vector<double>(gpus.size(), 0), sum};
  for (std::size_t c = 0; c < carriers.size(); ++c)
    shares.share[static_cast<std::size_t>(std::ranges::find(gpus, carriers[c]) - gpus.begin())] = rates[c] / sum;
  return shares;
}

std::vector<Path> host_relays(Topology& topology, const std::vector<int>& gpus, Traffic direction,
                              const HostShares& shares) {
  const double even = 1.0 / static_cast<double>(gpus.size());
  std::vector<double> left = shares.share;  // what a GPU can carry for others; negative: what others carry for it
  for (double& share : left) share -= even;
  std::vector<Path> paths;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    std::vector<std::size_t> helpers(gpus.size());
    std::iota(helpers.begin(), helpers.end(), 0);
    std::ranges::stable_sort(helpers, std::greater<>(), [&](std::size_t h) {
      return h == g ? 0
                    : width_of(topology, Place::gpu(gpus[direction == Traffic::host_to_device ? h : g]),
                               Place::gpu(gpus[direction == Traffic::host_to_device ? g : h]));
    });
    const std::size_t first = paths.size();
    double helped = 0;
    for (const std::size_t h : helpers) {
      const double carried = std::min(-left[g], left[h]);
      if (carried <= least_helped * even) continue;
      paths.push_back({end_of(gpus[g], direction, true), end_of(gpus[g], direction, false), {gpus[h]}, carried / even});
      helped += carried / even;
      left[g] += carried;
      left[h] -= carried;
    }
    // A GPU with a share of 0 must not carry the remainder either: its relays are scaled up to cover everything.
    if (shares.share[g] == 0)
      for (std::size_t p = first; p < paths.size(); ++p) paths[p].fraction /= helped;
  }
  return paths;
}

}  // namespace linkwise
