#include "linkwise/plan/sort_planner.hpp"

#include <algorithm>
#include <numeric>

#include "linkwise/error.hpp"
#include "linkwise/machine/topology.hpp"
#include "linkwise/plan/pricing.hpp"
#include "linkwise/sort/device_sort.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/strategies/p2p_merge_sort.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t most_simulated_chunksets = 24;  // in the second estimate of a plan
constexpr std::uint64_t few_chunksets = 6;              // in the first, which tells whether a plan may be the best:
constexpr double may_be_best = 1.05;                    // it takes at most this many times what the best takes
constexpr std::size_t enough_plans = 12;                // priced even if they cannot be the best, to show alternatives

// The records that a plan sorts at once, of `count` in all.
std::uint64_t records_at_once(const SortPlan& plan, std::uint64_t count) {
  return plan.chunkset_records == 0 ? count : std::min(plan.chunkset_records, count);
}

RecordType record_type(const SortWorkload& workload) { return {key_width(workload.key_type), workload.value_width}; }

// Larger inputs are relayed in larger chunks: 8 to 32 MiB are equally fast on GPUs, and fewer chunks are cheaper to
// issue and to price.
std::uint64_t relay_chunk(const SortWorkload& workload) {
  constexpr std::uint64_t least = 8 << 20, most = 32 << 20, chunks_in_all = 1024;
  return std::clamp(workload.count * record_type(workload).bytes() / chunks_in_all / least * least, least, most);
}

// Fills in what follows from the machine and the workload: the sizes of chunksets and of relayed chunks. False if not
// even a few records, or not as many as are pinned, fit into the memory of the GPUs.
bool fit(const Machine& machine, const SortWorkload& workload, const SortConstraints& constraints, SortPlan& plan) {
  if (!constraints.pinned.has("relay_bytes")) plan.relay_bytes = relay_chunk(workload);
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(constraints.memory_limit);
  try {
    const std::uint64_t fitting = records_that_fit(runtime, plan, record_type(workload), is_narrow(workload.key_type));
    if (constraints.pinned.has("chunkset_records")) return records_at_once(plan, workload.count) <= fitting;
    plan.chunkset_records = fitting >= workload.count ? 0 : fitting;
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
}

// Whether a plan for the CPU keeps all pinned fields.
bool cores_keep(const Pinned<SortPlan>& pinned) {
  return std::ranges::all_of(pinned.names, [](const std::string& name) { return name == "cpu_algorithm"; });
}

// Prices again, with more chunksets, the plans that may be the best and of which only a few chunksets were simulated.
template <typename Price>
void price_again(std::vector<PricedPlan>& priced, std::uint64_t count, const Price& price) {
  const double best = std::ranges::min(priced, {}, &PricedPlan::seconds).seconds;
  std::vector<PricedPlan*> close;
  for (PricedPlan& each : priced)
    if (each.plan.chunkset_records > 0 && each.plan.chunkset_records * few_chunksets < count &&
        each.seconds <= may_be_best * best)
      close.push_back(&each);
  for_each_in_parallel(close.size(), [&](std::size_t c) { *close[c] = price(close[c]->plan); });
}

// An empty list of GPUs stands for all.
bool gpus_reach_each_other(const Machine& machine, std::vector<int> gpus) {
  if (gpus.empty()) {
    gpus.resize(static_cast<std::size_t>(machine.num_gpus()));
    std::iota(gpus.begin(), gpus.end(), 0);
  }
  SortPlan plan;
  plan.gpus = gpus;
  check_gpus(machine, plan);
  return Topology(machine).reach_each_other(gpus);
}

// Why no plan could be priced.
[[noreturn]] void fail_to_fit(const SortWorkload& workload, const SortConstraints& constraints) {
  const std::string limit = constraints.memory_limit > 0
                                ? "memory_limit (" + std::to_string(constraints.memory_limit) + " bytes a GPU)"
                                : "the memory of the GPUs";
  if (constraints.pinned.has("chunkset_records"))
    throw OutOfMemoryError("chunkset_records is " + std::to_string(constraints.pinned.values.chunkset_records) +
                           ", and " + std::to_string(records_at_once(constraints.pinned.values, workload.count)) +
                           " records at once are more than " + limit + " holds; make it less, or leave it out");
  throw OutOfMemoryError(limit + " is too small to sort anything; raise it");
}

}  // namespace

void check_pinned(const Machine& machine, const std::vector<int>& gpus, const Pinned<SortPlan>& pinned) {
  if (pinned.has("exchange") && pinned.values.exchange == Exchange::fused && !gpus_reach_each_other(machine, gpus))
    throw UsageError("exchange is fused, which stores into the memory of peers, and the GPUs of '" + machine.name +
                     "' cannot reach each other's; make it copies, or leave it out");
  if (!pinned.has("paths") || pinned.values.paths.empty()) return;
  SortPlan plan = pinned.values;
  plan.gpus = gpus;
  if (plan.gpus.empty()) throw UsageError("paths go over certain GPUs: name gpus as well, or leave paths out");
  check_gpus(machine, plan);
}

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
  return sort_host(runtime, plan, input, output, {false, workload.verify, false, workload.expected_order});
}

SortReport estimate_device_sort(const Machine& machine, const SortWorkload& workload, const SortPlan& plan,
                                bool donated, std::uint64_t memory_limit) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
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
  // Of very many chunksets only some are simulated, and the time is scaled up.
  const auto price = [&](const SortPlan& plan, std::uint64_t chunksets = few_chunksets) {
    SortWorkload some = workload;
    if (plan.chunkset_records > 0) some.count = std::min(some.count, chunksets * plan.chunkset_records);
    SortReport report = estimate_sort(machine, some, plan, constraints.memory_limit);
    const double times =
        some.count == workload.count ? 1 : static_cast<double>(workload.count) / static_cast<double>(some.count);
    for (PhaseTime& phase : report.phases) phase.seconds *= times;
    return PricedPlan{plan, report.seconds * times, report.phases};
  };
  const bool only_cpu = constraints.strategy == SortStrategy::cpu;
  const bool may_use_cpu = only_cpu || (!constraints.strategy && constraints.gpus.empty() &&
                                        cores_keep(constraints.pinned) && machine.host.rates.contains("cpu_sort"));
  if (only_cpu && !constraints.gpus.empty()) throw UsageError("the cpu strategy uses no GPUs; leave gpus at 'auto'");
  check_pinned(machine, constraints.gpus, constraints.pinned);
  const std::vector<Candidate> candidates = candidates_for(machine, workload, constraints);
  const bool any = only_cpu || !candidates.empty();
  std::vector<PricedPlan> priced = price_in_waves(candidates, enough_plans, [&](const Candidate& candidate) {
    SortPlan plan = candidate.plan;
    std::vector<PricedPlan> found;
    if (!fit(machine, workload, constraints, plan)) return found;
    try {
      found.push_back(price(plan));
      if (plan.chunkset_records == 0 || plan.strategy == SortStrategy::het || constraints.pinned.has("merge_on_gpus"))
        return found;
      plan.merge_on_gpus = false;
      found.push_back(price(plan));
    } catch (const OutOfMemoryError&) {  // merging on the GPUs needs memory besides a chunkset
      return found;
    }
    return found;
  });
  if (!any && !gpus_reach_each_other(machine, constraints.gpus)) throw UsageError(p2p_needs_peers);
  if (!any)
    throw UsageError("p2p_merge runs on 2, 4, 8, … GPUs, not on " + std::to_string(constraints.gpus.size()) +
                     "; use radix or other GPUs");
  if (priced.empty() && !only_cpu) fail_to_fit(workload, constraints);
  if (may_use_cpu) {
    SortPlan plan;
    plan.strategy = SortStrategy::cpu;
    plan.gpus.clear();
    constraints.pinned.apply_to(plan);
    priced.push_back(price(plan));
  }
  price_again(priced, workload.count, [&](const SortPlan& plan) { return price(plan, most_simulated_chunksets); });
  simplest_of_the_best_first(priced, [](const PricedPlan& each) -> const SortPlan& { return each.plan; });
  return priced;
}

}  // namespace linkwise
