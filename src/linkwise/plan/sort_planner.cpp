#include "linkwise/plan/sort_planner.hpp"

#include <algorithm>

#include "linkwise/error.hpp"
#include "linkwise/plan/pricing.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t most_chunksets = 24;  // that are simulated
constexpr std::size_t enough_plans = 12;      // that are priced whatever they promise, to show what there would be

RecordType record_type(const SortWorkload& workload) { return {key_width(workload.key_type), workload.value_width}; }

// Larger inputs are relayed in larger chunks: as good from 8 to 32 MiB on GPUs, and fewer to issue and to price.
std::uint64_t relay_chunk(const SortWorkload& workload) {
  constexpr std::uint64_t least = 8 << 20, most = 32 << 20, chunks_in_all = 1024;
  return std::clamp(workload.count * record_type(workload).bytes() / chunks_in_all / least * least, least, most);
}

// Fills in what follows from the machine and the workload: how much is sorted at once, and relayed at once.
bool fit(const Machine& machine, const SortWorkload& workload, std::uint64_t memory_limit, SortPlan& plan) {
  plan.relay_bytes = relay_chunk(workload);
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
  const auto price = [&](const SortPlan& plan) {
    // Of very many chunksets some are simulated, and the others take as long.
    SortWorkload some = workload;
    if (plan.chunkset_records > 0) some.count = std::min(some.count, most_chunksets * plan.chunkset_records);
    SortReport report = estimate_sort(machine, some, plan, constraints.memory_limit);
    const double times =
        some.count == workload.count ? 1 : static_cast<double>(workload.count) / static_cast<double>(some.count);
    for (PhaseTime& phase : report.phases) phase.seconds *= times;
    return PricedPlan{plan, report.seconds * times, report.phases};
  };
  const bool only_cpu = constraints.strategy == SortStrategy::cpu;
  const bool may_use_cpu =
      only_cpu || (!constraints.strategy && constraints.gpus.empty() && machine.host.rates.contains("cpu_sort"));
  if (only_cpu && !constraints.gpus.empty()) throw UsageError("the cpu strategy uses no GPUs; leave gpus at 'auto'");
  const std::vector<Candidate> candidates = candidates_for(machine, workload, constraints);
  const bool any = only_cpu || !candidates.empty();
  std::vector<PricedPlan> priced = price_in_waves(candidates, enough_plans, [&](const Candidate& candidate) {
    SortPlan plan = candidate.plan;
    std::vector<PricedPlan> found;
    if (!fit(machine, workload, constraints.memory_limit, plan)) return found;
    try {
      found.push_back(price(plan));
      if (plan.chunkset_records == 0 || plan.strategy == SortStrategy::het) return found;
      plan.merge_on_gpus = false;
      found.push_back(price(plan));
    } catch (const OutOfMemoryError&) {  // of what merging takes beside a chunkset
      return found;
    }
    return found;
  });
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
    priced.push_back(price(plan));
  }
  simplest_of_the_best_first(priced, [](const PricedPlan& each) -> const SortPlan& { return each.plan; });
  return priced;
}

}  // namespace linkwise
