#include "linkwise/plan/merge_orders.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

namespace linkwise {
namespace {

constexpr std::size_t most_gpus = 8;  // sixteen have 10^13 orders
constexpr std::size_t most_shared = 256, most_priced = 6;

/// Positions that exchange when groups of so many GPUs are merged.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs_of(std::size_t gpus, std::size_t group) {
  Pairs pairs;
  for (std::size_t first = 0; first < gpus; first += group) {
    const std::size_t middle = first + group / 2, moved = std::max<std::size_t>(group / 4, 1);
    for (std::size_t i = 0; i < moved; ++i) pairs.emplace_back(middle - moved + i, middle + i);
  }
  return pairs;
}

class MergeOrders {
 public:
  MergeOrders(Topology& topology, const std::vector<int>& gpus) : topology_(topology), given_(gpus) {
    for (std::size_t group = 2; group <= gpus.size(); group *= 2) levels_.push_back(pairs_of(gpus.size(), group));
    for (const int a : gpus)
      for (const int b : gpus)
        if (a < b) alone_[{a, b}] = least_rate(std::vector{std::pair{a, b}});
  }

  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> orders{given_};
    if (has_every_link_to_itself(given_)) return orders;
    std::vector<Levels> known{shared_levels(given_)};
    for (const auto& [seconds, order] : scored()) {
      Levels levels = shared_levels(order);
      if (orders.size() == most_priced) break;
      if (std::ranges::find(known, levels) != known.end()) continue;
      known.push_back(std::move(levels));
      orders.push_back(order);
    }
    return orders;
  }

 private:
  using Scored = std::pair<double, std::vector<int>>;
  using Levels = std::vector<long>;  // of each level the slowest pair's rate, in steps of a percent

  // Nothing is faster, as behind a switch between all.
  bool has_every_link_to_itself(const std::vector<int>& order) {
    double best = 0;
    for (const auto& [pair, rate] : alone_) best = std::max(best, rate);
    return std::ranges::all_of(levels_,
                               [&](const Pairs& level) { return least_rate(between(order, level)) > 0.99 * best; });
  }

  // By what the slowest pair of each level takes: first as if each had its links to itself, and the best of these as
  // they share them.
  std::vector<Scored> scored() {
    std::vector<Scored> all;
    std::vector<int> order = given_;
    std::ranges::sort(order);
    do {
      if (order.front() < order.back())  // read from its end, an order exchanges the same
        all.emplace_back(seconds_of([&](const Pairs& level) { return slowest_alone(order, level); }), order);
    } while (std::ranges::next_permutation(order).found);
    std::ranges::stable_sort(all, {}, &Scored::first);
    all.resize(std::min(all.size(), most_shared));
    for (Scored& each : all)
      each.first = seconds_of([&](const Pairs& level) { return least_rate(between(each.second, level)); });
    std::ranges::stable_sort(all, {}, &Scored::first);
    return all;
  }

  // Of each GPU a half of its records goes to its neighbour first, and then all of those that change sides.
  template <typename Rate>
  double seconds_of(Rate rate_of) const {
    double seconds = 0.5 / rate_of(levels_.front());
    for (const Pairs& level : std::span(levels_).subspan(1)) seconds += 1 / rate_of(level);
    return seconds;
  }

  double slowest_alone(const std::vector<int>& order, const Pairs& level) const {
    double rate = INFINITY;
    for (const auto& [left, right] : level) rate = std::min(rate, alone_.at(std::minmax(order[left], order[right])));
    return rate;
  }

  Levels shared_levels(const std::vector<int>& order) {
    Levels levels;
    for (const Pairs& level : levels_) levels.push_back(std::lround(100 * std::log(least_rate(between(order, level)))));
    return levels;
  }

  static std::vector<std::pair<int, int>> between(const std::vector<int>& order, const Pairs& level) {
    std::vector<std::pair<int, int>> gpus;
    for (const auto& [left, right] : level) gpus.emplace_back(order[left], order[right]);
    return gpus;
  }

  // GB/s that each of them gets at least, one way, when all exchange at once.
  double least_rate(const std::vector<std::pair<int, int>>& pairs) {
    std::vector<const std::vector<Use>*> flows;
    for (const auto& [a, b] : pairs)
      for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}})
        flows.push_back(&topology_.route(Place::gpu(from), Place::gpu(to)).uses);
    return std::ranges::min(fair_rates(topology_.resources(), flows));
  }

  Topology& topology_;
  const std::vector<int>& given_;
  std::vector<Pairs> levels_;
  std::map<std::pair<int, int>, double> alone_;
};

}  // namespace

std::vector<std::vector<int>> merge_orders(Topology& topology, const std::vector<int>& gpus) {
  if (gpus.size() != 4 && gpus.size() != most_gpus) return {gpus};
  return MergeOrders(topology, gpus).run();
}

}  // namespace linkwise
