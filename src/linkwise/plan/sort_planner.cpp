#include "linkwise/plan/sort_planner.hpp"

#include <algorithm>
#include <bit>

#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/kernels.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {
namespace {

constexpr std::size_t sets_priced_per_size = 2;

RecordType record_type(const SortWorkload& workload) { return {key_width(workload.key_type), workload.value_width}; }

VirtualRuntime estimating_runtime(const Machine& machine) {
  return {machine, VirtualMode::estimate, 0, make_virtual_kernels()};
}

// Seconds to bring equal shares of `bytes` in to the set and out again, nothing else running.
double wire_seconds(Topology& topology, const std::vector<int>& gpus, double bytes, const SortWorkload& workload) {
  double seconds = 0;
  for (const bool inward : {true, false}) {
    std::vector<const std::vector<Use>*> uses;
    for (const int gpu : gpus)
      uses.push_back(&(inward ? topology.route(Place::host(), Place::gpu(gpu), workload.pageable)
                              : topology.route(Place::gpu(gpu), Place::host(), workload.pageable_out))
                          .uses);
    double slowest = 1e300;
    for (const double rate : fair_rates(topology.resources(), uses)) slowest = std::min(slowest, rate);
    seconds += bytes / static_cast<double>(gpus.size()) / (slowest * 1e9);
  }
  return seconds;
}

// For each size, the sets with the least wire time; of equals, the one with the lowest GPU numbers.
std::vector<std::vector<int>> candidate_sets(const Machine& machine, const SortWorkload& workload) {
  Topology topology(machine);
  const int gpus = machine.num_gpus();
  const double bytes = static_cast<double>(workload.count) * static_cast<double>(record_type(workload).bytes());
  struct Ranked {
    double seconds;
    std::vector<int> set;
  };
  std::vector<std::vector<Ranked>> by_size(static_cast<std::size_t>(gpus) + 1);
  for (unsigned mask = 1; mask < (1u << gpus); ++mask) {
    std::vector<int> set;
    for (int g = 0; g < gpus; ++g)
      if ((mask >> g & 1) != 0) set.push_back(g);
    const double seconds = wire_seconds(topology, set, bytes, workload);
    by_size[set.size()].push_back({seconds, std::move(set)});
  }
  std::vector<std::vector<int>> sets;
  for (auto& ranked : by_size) {
    std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
      return a.seconds < b.seconds * (1 - 1e-9) || (a.seconds <= b.seconds * (1 + 1e-9) && a.set < b.set);
    });
    for (std::size_t r = 0; r < std::min(ranked.size(), sets_priced_per_size); ++r) sets.push_back(ranked[r].set);
  }
  return sets;
}

// Fills in what follows from the machine: how much is sorted at once.
bool fit(const Machine& machine, const SortWorkload& workload, std::uint64_t memory_limit, SortPlan& plan) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
  try {
    const std::uint64_t fitting = records_that_fit(runtime, plan, record_type(workload));
    plan.chunkset_records = fitting >= workload.count ? 0 : fitting;
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
}

// The orders in which to merge: neighbours exchange most (sort22 §5.4). Four GPUs pair up in three ways, and face each
// other in two; with eight, all machines that we know join all of them alike. An order that is asked for is kept.
std::vector<std::vector<int>> merge_orders(const std::vector<int>& gpus, const SortConstraints& constraints) {
  std::vector<std::vector<int>> orders{gpus};
  if (gpus.size() != 4 || !constraints.gpus.empty()) return orders;
  std::vector<int> order = gpus;
  while (std::next_permutation(order.begin() + 1, order.end())) orders.push_back(order);
  return orders;
}

std::vector<SortPlan> plans_for(const std::vector<int>& gpus, const SortConstraints& constraints) {
  const auto wanted = [&](SortStrategy strategy) { return constraints.strategy.value_or(strategy) == strategy; };
  std::vector<SortPlan> plans;
  SortPlan plan;
  plan.gpus = gpus;
  if (wanted(SortStrategy::radix)) plans.push_back(plan);
  plan.strategy = SortStrategy::p2p_merge;
  // On one GPU p2p_merge is the local sort, as radix is: no candidate of its own unless it is asked for.
  if (wanted(plan.strategy) && std::has_single_bit(gpus.size()) && (gpus.size() > 1 || constraints.strategy))
    for (const std::vector<int>& order : merge_orders(gpus, constraints)) {
      plan.gpus = order;
      plans.push_back(plan);
    }
  plan.gpus = gpus;
  plan.strategy = SortStrategy::het;
  if (wanted(plan.strategy)) plans.push_back(plan);
  return plans;
}

}  // namespace

SortReport estimate_sort(const Machine& machine, const SortWorkload& workload, const SortPlan& plan,
                         std::uint64_t memory_limit) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
  // Addresses that are never used: an estimate has no data.
  auto* anywhere = reinterpret_cast<std::byte*>(1);  // NOLINT
  HostColumns input{workload.key_type, workload.count, anywhere, workload.value_width, nullptr};
  input.keys_pageable = input.values_pageable = workload.pageable;
  if (workload.values_from_host) input.values = anywhere;
  HostOutputs output{workload.keys_returned ? anywhere : nullptr,
                     workload.value_width == ValueWidth::none ? nullptr : anywhere};
  output.keys_pageable = output.values_pageable = workload.pageable_out;
  return sort_host(runtime, plan, input, output, {false, workload.verify});
}

SortReport estimate_device_sort(const Machine& machine, const SortWorkload& workload, const SortPlan& plan,
                                bool donated) {
  VirtualRuntime runtime = estimating_runtime(machine);
  auto* anywhere = reinterpret_cast<std::byte*>(1);  // NOLINT: never used, as above
  DeviceColumns columns{workload.key_type, workload.value_width, {}, donated};
  const std::uint64_t gpus = plan.gpus.size();
  for (std::uint64_t g = 0; g < gpus; ++g)
    columns.parts.push_back({workload.count * (g + 1) / gpus - workload.count * g / gpus, anywhere, anywhere, nullptr});
  const SortOptions options{false, workload.verify};
  const std::vector<SortedPart> parts = sort_device(runtime, plan, columns, options);
  return report_of(runtime, options);
}

std::vector<PricedPlan> plan_sort(const Machine& machine, const SortWorkload& workload,
                                  const SortConstraints& constraints) {
  const std::vector<std::vector<int>> sets =
      constraints.gpus.empty() ? candidate_sets(machine, workload) : std::vector<std::vector<int>>{constraints.gpus};
  std::vector<PricedPlan> priced;
  const auto price = [&](const SortPlan& plan) {
    const SortReport report = estimate_sort(machine, workload, plan, constraints.memory_limit);
    priced.push_back({plan, report.seconds, report.phases});
  };
  const bool only_cpu = constraints.strategy == SortStrategy::cpu;
  const bool may_use_cpu =
      only_cpu || (!constraints.strategy && constraints.gpus.empty() && machine.host.rates.contains("cpu_sort"));
  if (only_cpu && !constraints.gpus.empty()) throw UsageError("the cpu strategy uses no GPUs; leave gpus at 'auto'");
  bool any = only_cpu;
  for (const auto& set : sets)
    for (SortPlan plan : plans_for(set, constraints)) {
      any = true;
      if (!fit(machine, workload, constraints.memory_limit, plan)) continue;
      price(plan);
      if (plan.chunkset_records == 0 || plan.strategy == SortStrategy::het) continue;
      plan.merge_on_gpus = false;
      price(plan);
    }
  if (!any)
    throw UsageError("p2p_merge runs on 2, 4, 8, … GPUs, not on " + std::to_string(constraints.gpus.size()) +
                     "; use radix or other GPUs");
  if (priced.empty() && !only_cpu)
    throw OutOfMemoryError("memory_limit (" + std::to_string(constraints.memory_limit) +
                           " bytes a GPU) is too small to sort anything; raise it");
  if (may_use_cpu) {
    SortPlan plan;
    plan.strategy = SortStrategy::cpu;
    plan.gpus.clear();
    price(plan);
  }
  std::ranges::stable_sort(priced, {}, &PricedPlan::seconds);
  return priced;
}

}  // namespace linkwise
