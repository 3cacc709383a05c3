#include "linkwise/plan/candidates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "linkwise/machine/symmetry.hpp"
#include "linkwise/plan/merge_orders.hpp"
#include "linkwise/sort/exchange/splitters.hpp"

namespace linkwise {
namespace {

constexpr std::size_t sets_of_a_size = 2;
constexpr double worth_it = 1.03;  // times the rate of even shares, which uneven ones have to exceed

// A GPU set, and the relay paths over its GPUs that may be worthwhile.
struct GpuSet {
  std::vector<int> gpus;
  double wire_seconds = 0;         // each GPU carrying the same
  std::vector<Path> host_ways;     // for host traffic, if uneven shares carry more
  double uneven_wire_seconds = 0;  // with these
  std::vector<Path> peer_ways;
};

class Enumeration {
 public:
  Enumeration(const Machine& machine, const SortWorkload& workload, const SortConstraints& constraints)
      : topology_(machine),
        workload_(workload),
        constraints_(constraints),
        gigabytes_(static_cast<double>(std::max<std::uint64_t>(workload.count, 1)) *
                   static_cast<double>(RecordType{key_width(workload.key_type), workload.value_width}.bytes()) / 1e9) {}

  std::vector<Candidate> run() {
    for (GpuSet& set : sets()) {
      find_ways(set);
      add_plans(set);
    }
    std::ranges::stable_sort(candidates_, {}, &Candidate::wire_seconds);
    return std::move(candidates_);
  }

 private:
  [[nodiscard]] bool is_pageable(Traffic direction) const {
    return direction == Traffic::host_to_device ? workload_.pageable : workload_.pageable_out;
  }

  double even_rate(const std::vector<int>& gpus, Traffic direction) {
    return even_host_rate(topology_, gpus, direction, is_pageable(direction));
  }

  // The lowest GB/s between any two of them when all send to all, as in an exchange.
  double exchange_rate(const std::vector<int>& gpus) {
    std::vector<const std::vector<Use>*> flows;
    for (const int a : gpus)
      for (const int b : gpus)
        if (a != b) flows.push_back(&topology_.route(Place::gpu(a), Place::gpu(b)).uses);
    return flows.empty() ? 0 : std::ranges::min(fair_rates(topology_.resources(), flows));
  }

  // For each size, the sets with the least wire time; ties go to the faster exchange, then to the lowest numbers.
  std::vector<GpuSet> sets() {
    const auto set_of = [&](std::vector<int> gpus) {
      GpuSet set{std::move(gpus)};
      for (const Traffic direction : {Traffic::host_to_device, Traffic::device_to_host})
        set.wire_seconds += gigabytes_ / even_rate(set.gpus, direction);
      return set;
    };
    if (!constraints_.gpus.empty()) return {set_of(constraints_.gpus)};
    // In steps of a percent: smaller differences are ignored.
    const auto rank = [](double value) { return std::lround(100 * std::log(value)); };
    using Rank = std::pair<long, long>;
    std::vector<std::vector<std::pair<Rank, GpuSet>>> by_size(static_cast<std::size_t>(topology_.machine().num_gpus()) +
                                                              1);
    for (std::vector<int>& gpus : distinct_gpu_sets(topology_)) {
      GpuSet set = set_of(std::move(gpus));
      const long exchange = set.gpus.size() > 1 ? rank(exchange_rate(set.gpus)) : 0;
      by_size[set.gpus.size()].emplace_back(Rank{rank(set.wire_seconds / gigabytes_), -exchange}, std::move(set));
    }
    std::vector<GpuSet> best;
    for (auto& ranked : by_size) {
      std::ranges::stable_sort(ranked, {}, &std::pair<Rank, GpuSet>::first);
      for (std::size_t r = 0; r < std::min(ranked.size(), sets_of_a_size); ++r)
        best.push_back(std::move(ranked[r].second));
    }
    return best;
  }

  void find_ways(GpuSet& set) {
    if (set.gpus.size() < 2) return;
    set.peer_ways = peer_relays(topology_, set.gpus);
    for (const Traffic direction : {Traffic::host_to_device, Traffic::device_to_host}) {
      const double even = even_rate(set.gpus, direction);
      const HostShares shares = best_host_shares(topology_, set.gpus, direction, is_pageable(direction));
      const bool is_better = shares.gb_per_s > worth_it * even;
      set.uneven_wire_seconds += gigabytes_ / (is_better ? shares.gb_per_s : even);
      if (!is_better) continue;
      const std::vector<Path> ways = host_relays(topology_, set.gpus, direction, shares);
      set.host_ways.insert(set.host_ways.end(), ways.begin(), ways.end());
    }
  }

  [[nodiscard]] bool is_wanted(SortStrategy strategy) const {
    if (strategy == SortStrategy::het && constraints_.pinned.has("merge_on_gpus"))
      return false;  // het always merges on the host
    return constraints_.strategy.value_or(strategy) == strategy;
  }

  // If the caller names the GPUs, their order is kept.
  std::vector<std::vector<int>> orders_of(const std::vector<int>& gpus) {
    if (!constraints_.gpus.empty()) return {gpus};
    return merge_orders(topology_, gpus);
  }

  void add_plans(const GpuSet& set) {
    SortPlan plan;
    plan.gpus = set.gpus;
    if (is_wanted(SortStrategy::radix)) add_with_ways(plan, set);
    plan.strategy = SortStrategy::p2p_merge;
    // On one GPU p2p_merge is the local sort, as radix is: no candidate of its own unless it is asked for.
    const std::size_t gpus = set.gpus.size();
    const bool is_possible = std::has_single_bit(gpus) && topology_.reach_each_other(set.gpus);
    if (is_wanted(plan.strategy) && is_possible && (gpus > 1 || constraints_.strategy))
      for (const std::vector<int>& order : orders_of(set.gpus)) {
        plan.gpus = order;
        add_with_ways(plan, set);
      }
    plan.gpus = set.gpus;
    plan.strategy = SortStrategy::het;
    if (is_wanted(plan.strategy)) add_with_ways(plan, set);
  }

  // Adds the plan without relay paths, and with every choice of them that it can use. Pinned fields are not varied.
  void add_with_ways(SortPlan plan, const GpuSet& set) {
    constraints_.pinned.apply_to(plan);
    // Cuts from few samples make less equal parts, which need more room.
    if (constraints_.pinned.has("samples") && !constraints_.pinned.has("slack"))
      plan.slack = std::clamp(sampling_error(plan.gpus.size(), plan.samples), plan.slack, 1.0);
    if (constraints_.pinned.has("paths")) {
      // Streamed sorts store directly to the peers, and het moves nothing between GPUs.
      const bool between_gpus =
          std::ranges::any_of(plan.paths, [](const Path& path) { return path.from.is_gpu() && path.to.is_gpu(); });
      if (between_gpus && plan.strategy == SortStrategy::het) return;
      if (between_gpus && !constraints_.pinned.has("streamed")) plan.streamed = false;
      return candidates_.push_back({plan, set.wire_seconds});
    }
    const auto add = [&](const std::vector<Path>& ways) {
      plan.paths = ways;
      candidates_.push_back({plan, set.wire_seconds});
      // Relays of host traffic help every strategy alike: the radix sort shows whether they pay; other strategies get
      // them only if they are asked for.
      if (set.host_ways.empty() || (plan.strategy != SortStrategy::radix && !constraints_.strategy)) return;
      plan.paths.insert(plan.paths.end(), set.host_ways.begin(), set.host_ways.end());
      candidates_.push_back({plan, set.uneven_wire_seconds});
    };
    add({});
    if (set.peer_ways.empty() || plan.strategy == SortStrategy::het) return;
    // The partition kernel of a streamed sort stores to the peers by itself.
    if (plan.strategy == SortStrategy::radix && constraints_.pinned.has("streamed") && plan.streamed) return;
    plan.streamed = false;
    add(set.peer_ways);
  }

  Topology topology_;
  const SortWorkload& workload_;
  const SortConstraints& constraints_;
  double gigabytes_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<Candidate> candidates_for(const Machine& machine, const SortWorkload& workload,
                                      const SortConstraints& constraints) {
  SortPlan pinned;
  pinned.gpus = constraints.gpus;
  if (!pinned.gpus.empty()) check_gpus(machine, pinned);
  return Enumeration(machine, workload, constraints).run();
}

}  // namespace linkwise
