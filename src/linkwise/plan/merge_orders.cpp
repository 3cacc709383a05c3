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

/// Pairs of positions that exchange data when groups of a given size are merged.
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
        if (a < b) fastest_ = std::max(fastest_, alone_[{a, b}] = least_rate({{a, b}}));
  }

  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> orders{given_};
    const Rates given = shared(given_);
    if (std::ranges::min(given) > 0.99 * fastest_) return orders;  // as with a switch between all GPUs
    std::vector<Levels> known{levels_of(given)};
    for (const Scored& each : scored()) {
      if (orders.size() == most_priced) break;
      if (std::ranges::find(known, levels_of(each.rates)) != known.end()) continue;
      known.push_back(levels_of(each.rates));
      orders.push_back(each.order);
    }
    return orders;
  }

 private:
  using Rates = std::vector<double>;  // GB/s of the slowest pair, by level
  using Levels = std::vector<long>;   // the same in steps of a percent

  struct Scored {
    std::vector<int> order;
    Rates rates;
    double seconds = 0;
  };

  // Orders by the time of the slowest pair of each level: first as if each pair had its links to itself, then, for
  // the best ones, with the links shared.
  std::vector<Scored> scored() {
    std::vector<Scored> all;
    std::vector<int> order = given_;
    std::ranges::sort(order);
    do {
      if (order.front() < order.back()) all.push_back({order, alone(order)});  // reversed, it exchanges the same
    } while (std::ranges::next_permutation(order).found);
    best_first(all);
    all.resize(std::min(all.size(), most_shared));
    for (Scored& each : all) each.rates = shared(each.order);
    best_first(all);
    return all;
  }

  // On the first level each GPU exchanges half of its records, on later levels the GPUs that exchange send all of
  // theirs.
  static void best_first(std::vector<Scored>& all) {
    for (Scored& each : all) {
      each.seconds = 0.5 / each.rates.front();
      for (const double rate : std::span(each.rates).subspan(1)) each.seconds += 1 / rate;
    }
    std::ranges::stable_sort(all, {}, &Scored::seconds);
  }

  Rates alone(const std::vector<int>& order) const {
    Rates rates(levels_.size(), fastest_);
    for (std::size_t l = 0; l < levels_.size(); ++l)
      for (const auto& [left, right] : levels_[l])
        rates[l] = std::min(rates[l], alone_.at(std::minmax(order[left], order[right])));
    return rates;
  }

  Rates shared(const std::vector<int>& order) {
    Rates rates;
    for (const Pairs& level : levels_) rates.push_back(least_rate(between(order, level)));
    return rates;
  }

  static Levels levels_of(const Rates& rates) {
    Levels levels;
    for (const double rate : rates) levels.push_back(std::lround(100 * std::log(rate)));
    return levels;
  }

  static std::vector<std::pair<int, int>> between(const std::vector<int>& order, const Pairs& level) {
    std::vector<std::pair<int, int>> gpus;
    for (const auto& [left, right] : level) gpus.emplace_back(order[left], order[right]);
    return gpus;
  }

  // The lowest rate of any pair, in GB/s one way, when all exchange at once.
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
  std::map<std::pair<int, int>, double> alone_;  // GB/s of a pair that exchanges alone
  double fastest_ = 0;                           // of these
};

}  // namespace

std::vector<std::vector<int>> merge_orders(Topology& topology, const std::vector<int>& gpus) {
  if (gpus.size() != 4 && gpus.size() != most_gpus) return {gpus};
  return MergeOrders(topology, gpus).run();
}

}  // namespace linkwise
