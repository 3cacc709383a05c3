#include "linkwise/machine/paths.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "linkwise/machine/linear_program.hpp"

namespace linkwise {
namespace {

constexpr double worth_it = 1.2;       // times the straight way's width, for a relay between GPUs
constexpr double good_enough = 0.999;  // of the highest rate, for more even shares
constexpr double least_carried = 0.1;  // of an even share; less is not worth a transfer
constexpr double least_helped = 0.02;  // of what a GPU's part is
constexpr double nothing = 1e-9;

double width_of(Topology& topology, Place from, Place to) {
  const std::vector<Use>* uses[] = {&topology.route(from, to).uses};
  return fair_rates(topology.resources(), uses).front();
}

Place end_of(int gpu, Traffic direction, bool source) {
  return (direction == Traffic::host_to_device) == source ? Place::host() : Place::gpu(gpu);
}

// The highest rates of transfers to or from the carriers, all at once.
std::vector<double> highest_rates(Topology& topology, const std::vector<int>& carriers, Traffic direction,
                                  bool pageable) {
  std::vector<std::vector<double>> rows;
  std::vector<double> limits;
  const auto resources = topology.resources();
  for (std::size_t r = 0; r < resources.size(); ++r) {
    std::vector<double> row(carriers.size(), 0);
    int flows = 0;
    for (std::size_t c = 0; c < carriers.size(); ++c)
      for (const Use& use :
           topology.route(end_of(carriers[c], direction, true), end_of(carriers[c], direction, false), pageable).uses)
        if (use.resource == static_cast<int>(r)) {
          row[c] += use.weight;
          ++flows;
        }
    if (flows == 0) continue;
    rows.push_back(std::move(row));
    limits.push_back(capacity_at(resources[r].capacity, flows));
  }
  // With a limit on each rate as well: the lowest that leaves the sum as high makes the rates the most even.
  const std::size_t shared = rows.size();
  for (std::size_t c = 0; c < carriers.size(); ++c) {
    rows.emplace_back(carriers.size(), 0)[c] = 1;
    limits.push_back(std::numeric_limits<double>::max());
  }
  const auto rates_below = [&](double most) {
    std::fill(limits.begin() + static_cast<std::ptrdiff_t>(shared), limits.end(), most);
    return maximise_sum(rows, limits);
  };
  std::vector<double> rates = rates_below(std::numeric_limits<double>::max());
  const double highest = std::reduce(rates.begin(), rates.end());
  double low = highest / static_cast<double>(carriers.size()), high = highest;
  for (int step = 0; step < 30 && high - low > 1e-4 * highest; ++step) {
    const double middle = (low + high) / 2;
    std::vector<double> evener = rates_below(middle);
    if (std::reduce(evener.begin(), evener.end()) < good_enough * highest) {
      low = middle;
    } else {
      high = middle;
      rates = std::move(evener);
    }
  }
  return rates;
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
    // What a GB/s costs: every hop keeps a link busy.
    [[nodiscard]] double score() const { return width / static_cast<double>(over.size() + 1); }
  };
  std::vector<std::vector<Way>> straight(n, std::vector<Way>(n));
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (a != b) straight[a][b].width = width_of(topology, Place::gpu(gpus[a]), Place::gpu(gpus[b]));
  std::vector<std::vector<Way>> best = straight;
  // Over one intermediate GPU more at a time (Floyd and Warshall's order); of ways as good, the first stays.
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b || a == k || b == k || !topology.meet_at_the_host(gpus[a], gpus[b])) continue;
        Way way{std::min(best[a][k].width, best[k][b].width), best[a][k].over};
        way.over.push_back(gpus[k]);
        way.over.insert(way.over.end(), best[k][b].over.begin(), best[k][b].over.end());
        const bool is_better = best[a][b].over.empty() || way.score() > (1 + nothing) * best[a][b].score();
        if (way.width > worth_it * straight[a][b].width && is_better) best[a][b] = std::move(way);
      }
  std::vector<Path> paths;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (!best[a][b].over.empty()) paths.push_back({Place::gpu(gpus[a]), Place::gpu(gpus[b]), best[a][b].over});
  return paths;
}

double even_host_rate(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable) {
  std::vector<const std::vector<Use>*> uses;
  for (const int gpu : gpus)
    uses.push_back(&topology.route(end_of(gpu, direction, true), end_of(gpu, direction, false), pageable).uses);
  return static_cast<double>(gpus.size()) * std::ranges::min(fair_rates(topology.resources(), uses));
}

HostShares best_host_shares(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable) {
  std::vector<int> carriers = gpus;
  std::vector<double> rates;
  // What a resource carries may depend on how many use it, so those who carry next to nothing leave.
  while (true) {
    rates = highest_rates(topology, carriers, direction, pageable);
    const double least = least_carried * std::reduce(rates.begin(), rates.end()) / static_cast<double>(rates.size());
    std::vector<int> remaining;
    for (std::size_t c = 0; c < carriers.size(); ++c)
      if (rates[c] > least) remaining.push_back(carriers[c]);
    if (remaining.size() == carriers.size()) break;
    carriers = std::move(remaining);
  }
  HostShares shares{std::vector<double>(gpus.size(), 0), std::reduce(rates.begin(), rates.end())};
  for (std::size_t c = 0; c < carriers.size(); ++c)
    shares.share[static_cast<std::size_t>(std::ranges::find(gpus, carriers[c]) - gpus.begin())] =
        rates[c] / shares.gb_per_s;
  return shares;
}

std::vector<Path> host_relays(Topology& topology, const std::vector<int>& gpus, Traffic direction,
                              const HostShares& shares) {
  const double even = 1.0 / static_cast<double>(gpus.size());
  std::vector<double> left = shares.share;  // that a GPU can carry for others
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
    // Who carries nothing at all does not carry what is left over either.
    if (shares.share[g] == 0)
      for (std::size_t p = first; p < paths.size(); ++p) paths[p].fraction /= helped;
  }
  return paths;
}

}  // namespace linkwise
