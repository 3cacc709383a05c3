#include "linkwise/plan/join_planner.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/join/host_join.hpp"
#include "linkwise/plan/candidates.hpp"
#include "linkwise/plan/in_parallel.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {
namespace {

constexpr double hopeless = 1.25;           // times the best so far: with that much wire time, a plan is not the best
constexpr std::size_t priced_at_once = 12;  // whatever the number of cores, so that it is the same everywhere
constexpr double as_good = 1.01;            // times the best: then the one with the fewest GPUs
constexpr int most_batches = 512;
constexpr std::uint64_t most_chunksets = 64;   // more would take longer than any other way
constexpr std::uint64_t pairs_in_memory = 16;  // that three streams take, with all that joining them needs

JoinInput input_of(const JoinWorkload& workload) {
  // Addresses that are never used: an estimate has no data.
  auto* anywhere = reinterpret_cast<std::byte*>(1);  // NOLINT
  const auto columns = [&](std::uint64_t rows, ValueWidth width) {
    return HostColumns{
        workload.key_type, rows, anywhere, width, width == ValueWidth::none ? nullptr : anywhere, workload.pageable,
        workload.pageable};
  };
  JoinInput input;
  input.left = columns(workload.left_rows, workload.left_values);
  input.right = columns(workload.right_rows, workload.right_values);
  input.kind = workload.kind;
  input.left_presorted = workload.left_presorted;
  input.right_presorted = workload.right_presorted;
  input.verify = workload.verify;
  input.expected_matches = workload.expected_matches;
  return input;
}

VirtualRuntime estimating_runtime(const Machine& machine) {
  return {machine, VirtualMode::estimate, 0, make_virtual_kernels()};
}

// Fills in what follows from the memory that there is. False if the path cannot be taken.
bool fit(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints, JoinPlan& plan) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(constraints.memory_limit);
  const JoinInput input = input_of(workload);
  if (plan.path == JoinPath::in_core) {
    // The more batches, the less of the probing side is there at once.
    while (!workload.wants_rows && plan.batches < most_batches &&
           !join_fits(runtime, plan, input, /*wants_rows=*/false))
      plan.batches *= 2;
    return join_fits(runtime, plan, input, workload.wants_rows);
  }
  if (workload.wants_rows && right_emits(workload.kind)) return false;
  plan.merges_runs = workload.wants_rows;
  const ValueWidth wider = std::max(workload.left_values, workload.right_values);
  try {
    const std::uint64_t fitting = records_that_fit(runtime, plan.sort, {key_width(workload.key_type), wider});
    const std::uint64_t longer = std::max(workload.left_rows, workload.right_rows);
    plan.sort.chunkset_records = fitting < longer ? fitting : 0;
    if (longer / fitting > most_chunksets) return false;
  } catch (const OutOfMemoryError&) {
    return false;
  }
  for (const int gpu : plan.sort.gpus)
    plan.pair_bytes = std::min(plan.pair_bytes, runtime.available(Place::gpu(gpu)) / pairs_in_memory);
  return true;
}

// Adds what the candidates take on a path; those with the least wire time first, until what is left is hopeless.
void price(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints,
           std::span<const Candidate> candidates, JoinPath path, std::vector<PricedJoin>& found) {
  double best = std::numeric_limits<double>::infinity();
  while (!candidates.empty() && candidates.front().wire_seconds < hopeless * best) {
    const std::span<const Candidate> wave = candidates.first(std::min(candidates.size(), priced_at_once));
    candidates = candidates.subspan(wave.size());
    std::vector<PricedJoin> priced(wave.size());
    for_each_in_parallel(wave.size(), [&](std::size_t c) {
      JoinPlan plan;
      plan.path = path;
      plan.sort = wave[c].plan;
      if (!plan.sort.streamed || !fit(machine, workload, constraints, plan)) return;
      const SortReport report = estimate_join(machine, workload, plan, constraints.memory_limit);
      priced[c] = {plan, report.seconds, report.phases};
    });
    for (PricedJoin& each : priced) {
      if (each.phases.empty()) continue;
      best = std::min(best, each.seconds);
      found.push_back(std::move(each));
    }
  }
}

// How often the probing side passes by: the more often, the less is left to do at the end, and the more in all.
void choose_batches(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints,
                    PricedJoin& best) {
  if (workload.wants_rows || best.plan.path != JoinPath::in_core) return;
  for (const int batches : {4, 16}) {
    JoinPlan plan = best.plan;
    plan.batches = batches;
    if (!fit(machine, workload, constraints, plan)) continue;
    const SortReport report = estimate_join(machine, workload, plan, constraints.memory_limit);
    if (report.seconds < best.seconds / as_good) best = {plan, report.seconds, report.phases};
  }
}

}  // namespace

SortReport estimate_join(const Machine& machine, const JoinWorkload& workload, const JoinPlan& plan,
                         std::uint64_t memory_limit) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
  const JoinInput input = input_of(workload);
  if (!workload.wants_rows) {
    (void)join_totals(runtime, plan, input);
  } else {
    auto* anywhere = reinterpret_cast<std::byte*>(1);  // NOLINT: never used, as above
    const JoinOutputs outputs{right_emits(workload.kind) ? nullptr : anywhere,
                              workload.left_values == ValueWidth::none ? nullptr : anywhere,
                              workload.right_values == ValueWidth::none ? nullptr : anywhere, workload.pageable};
    (void)join_rows(runtime, plan, input, [&](std::uint64_t) { return outputs; });
  }
  return report_of(runtime, {false, workload.verify});
}

std::vector<PricedJoin> plan_join(const Machine& machine, const JoinWorkload& workload,
                                  const JoinConstraints& constraints) {
  SortWorkload both;
  both.key_type = workload.key_type;
  both.count = workload.left_rows + workload.right_rows;
  both.value_width = std::max(workload.left_values, workload.right_values);
  both.pageable = both.pageable_out = workload.pageable;
  const std::vector<Candidate> candidates =
      candidates_for(machine, both, {constraints.gpus, SortStrategy::radix, constraints.memory_limit});
  // In host memory only what lies sorted there, or does not fit.
  const bool is_sorted = workload.left_presorted || workload.right_presorted;
  std::vector<PricedJoin> found;
  for (const JoinPath path : {JoinPath::in_core, JoinPath::sorted}) {
    if (constraints.path.value_or(path) != path) continue;
    if (!constraints.path && path == JoinPath::sorted && !is_sorted && !found.empty()) continue;
    price(machine, workload, constraints, candidates, path, found);
  }
  if (found.empty())
    throw OutOfMemoryError("no join of " + std::to_string(both.count) +
                           " rows fits into the GPUs; raise memory_limit, or use more GPUs");
  std::ranges::stable_sort(found, {}, &PricedJoin::seconds);
  const auto others = std::ranges::find_if(
      found, [&](const PricedJoin& each) { return each.seconds > as_good * found.front().seconds; });
  const auto simplest = std::min_element(found.begin(), others, [](const PricedJoin& a, const PricedJoin& b) {
    return std::pair(a.plan.sort.gpus.size(), a.plan.sort.paths.size()) <
           std::pair(b.plan.sort.gpus.size(), b.plan.sort.paths.size());
  });
  std::rotate(found.begin(), simplest, simplest + 1);
  choose_batches(machine, workload, constraints, found.front());
  return found;
}

}  // namespace linkwise
