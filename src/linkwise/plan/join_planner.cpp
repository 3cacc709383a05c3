#include "linkwise/plan/join_planner.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/join/host_join.hpp"
#include "linkwise/plan/pricing.hpp"

namespace linkwise {
namespace {

constexpr int most_batches = 512;
constexpr std::uint64_t most_windows = 32;     // of a result, on each GPU, that are simulated; others extrapolated
constexpr std::uint64_t most_chunksets = 64;   // more would take longer than any other way
constexpr std::uint64_t pairs_in_memory = 16;  // times pair_bytes: what three streams and the joining take

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

// Fills in what follows from the available memory. False if the path cannot be used.
bool fit(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints, JoinPlan& plan) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(constraints.memory_limit);
  const JoinInput input = input_of(workload);
  if (plan.path == JoinPath::in_core) {
    if (workload.wants_ranges) return false;
    // The more batches, the less of the probe side is resident at once.
    while (!workload.wants_rows && !constraints.pinned.has("batches") && plan.batches < most_batches &&
           !join_fits(runtime, plan, input, /*wants_rows=*/false))
      plan.batches *= 2;
    return join_fits(runtime, plan, input, workload.wants_rows);
  }
  if (plan.path == JoinPath::hybrid_radix) return !workload.wants_rows && !workload.wants_ranges;
  if (!constraints.pinned.has("merges_runs"))
    plan.merges_runs = workload.wants_rows || workload.wants_ranges || plan.sort.strategy == SortStrategy::het;
  const ValueWidth wider = std::max(workload.left_values, workload.right_values);
  try {
    const std::uint64_t fitting = records_that_fit(runtime, plan.sort, {key_width(workload.key_type), wider});
    const std::uint64_t longer = std::max(workload.left_rows, workload.right_rows);
    std::uint64_t& at_once = plan.sort.chunkset_records;
    if (!constraints.pinned_sort.has("chunkset_records")) at_once = fitting < longer ? fitting : 0;
    else if (std::min(at_once == 0 ? longer : at_once, longer) > fitting) return false;
    if (at_once > 0 && longer / at_once > most_chunksets && constraints.pinned_sort.has("chunkset_records"))
      throw UsageError("chunkset_records is " + std::to_string(at_once) + ", and a join of " + std::to_string(longer) +
                       " rows is sorted in " + std::to_string(most_chunksets) +
                       " parts at most; make it more, or leave it out");
    if (at_once > 0 && longer / at_once > most_chunksets) return false;
  } catch (const OutOfMemoryError&) {
    return false;
  }
  if (constraints.pinned.has("pair_bytes")) return true;
  for (const int gpu : plan.sort.gpus)
    plan.pair_bytes = std::min(plan.pair_bytes, runtime.available(Place::gpu(gpu)) / pairs_in_memory);
  return true;
}

// The price of a candidate on a path; empty if it cannot be used.
std::vector<PricedJoin> price(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints,
                              const Candidate& candidate, JoinPath path) {
  JoinPlan plan;
  plan.path = path;
  plan.sort = candidate.plan;
  constraints.pinned.apply_to(plan);
  // Candidates with relays between GPUs are for non-streamed sorts; in a join they would only repeat the others.
  const Pinned<SortPlan>& sort = constraints.pinned_sort;
  if (!plan.sort.streamed && !sort.has("streamed") && !sort.has("paths")) return {};
  const bool is_in_core = path == JoinPath::in_core;
  if (is_in_core && (!plan.sort.streamed || plan.sort.strategy != SortStrategy::radix)) return {};
  // The baselines' GPUs send nothing to each other.
  if (is_baseline(path) && (plan.sort.strategy != SortStrategy::het || !plan.sort.paths.empty())) return {};
  if (!fit(machine, workload, constraints, plan)) return {};
  try {
    const SortReport report = estimate_join(machine, workload, plan, constraints.memory_limit);
    return {{plan, report.seconds, report.phases}};
  } catch (const OutOfMemoryError&) {  // found only while estimating; another candidate may fit
    return {};
  }
}

// Chooses the number of batches of the probe side: with more, less work is left at the end, but there is more in
// total.
void choose_batches(const Machine& machine, const JoinWorkload& workload, const JoinConstraints& constraints,
                    PricedJoin& best) {
  if (workload.wants_rows || best.plan.path != JoinPath::in_core || constraints.pinned.has("batches")) return;
  for (const int batches : {4, 16}) {
    JoinPlan plan = best.plan;
    plan.batches = batches;
    if (!fit(machine, workload, constraints, plan)) continue;
    try {
      const SortReport report = estimate_join(machine, workload, plan, constraints.memory_limit);
      if (report.seconds < best.seconds / as_good) best = {plan, report.seconds, report.phases};
    } catch (const OutOfMemoryError&) {  // NOLINT(bugprone-empty-catch): then not this number
    }
  }
}

// The error message that names the pinned fields which no plan for so many rows could keep.
std::string what_does_not_fit(const JoinConstraints& constraints, std::uint64_t rows) {
  std::string named = constraints.path ? "path" : "";
  for (const auto* names : {&constraints.pinned.names, &constraints.pinned_sort.names})
    for (const std::string& name : *names) named += (named.empty() ? "" : ", ") + name;
  return "no join of " + std::to_string(rows) + " rows with " + named +
         " as pinned fits into the GPUs; leave some of these out, raise memory_limit, or use more GPUs";
}

SortReport estimate_whole(const Machine& machine, const JoinWorkload& workload, const JoinPlan& plan,
                          std::uint64_t memory_limit) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
  const JoinInput input = input_of(workload);
  if (workload.wants_ranges) {
    join_ranges(runtime, plan, input, [](const RangeSizes&) { return RangeArrays(); });
  } else if (!workload.wants_rows) {
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

}  // namespace

SortReport estimate_join(const Machine& machine, const JoinWorkload& workload, const JoinPlan& plan,
                         std::uint64_t memory_limit) {
  const std::uint64_t matches = expected_counts(input_of(workload)).pairs;
  const std::uint64_t step = most_windows / 2 * plan.window_rows * plan.sort.gpus.size();
  // If unmatched rows are in the result too, matches add rows only beyond the number of rows of the longer side.
  const std::uint64_t at_least =
      workload.kind == JoinKind::inner ? step : std::max(workload.left_rows, workload.right_rows);
  const std::uint64_t priced = at_least + step;
  const bool is_filter =
      workload.kind == JoinKind::semi || workload.kind == JoinKind::anti;  // as short as the left side
  if (!workload.wants_rows || is_filter || matches <= priced)
    return estimate_whole(machine, workload, plan, memory_limit);
  // All windows of the result cost the same: the rest is extrapolated from the last ones that are simulated.
  JoinWorkload some = workload;
  some.expected_matches = priced;
  SortReport report = estimate_whole(machine, some, plan, memory_limit);
  some.expected_matches = at_least;
  const SortReport fewer = estimate_whole(machine, some, plan, memory_limit);
  const double steps = static_cast<double>(matches - priced) / static_cast<double>(step);
  report.seconds += steps * (report.seconds - fewer.seconds);
  for (PhaseTime& phase : report.phases)
    for (const PhaseTime& before : fewer.phases)
      if (before.phase == phase.phase) phase.seconds += steps * (phase.seconds - before.seconds);
  return report;
}

std::vector<PricedJoin> plan_join(const Machine& machine, const JoinWorkload& workload,
                                  const JoinConstraints& constraints) {
  check_pinned(machine, constraints.gpus, constraints.pinned_sort);
  if (constraints.pinned.has("batches") && constraints.pinned.values.batches > 1 && workload.kind == JoinKind::full &&
      !workload.wants_rows)
    throw UsageError("batches is " + std::to_string(constraints.pinned.values.batches) +
                     ", and both sides of a full join pass at once; leave batches out");
  if (constraints.path == JoinPath::hybrid_radix && (workload.wants_rows || workload.wants_ranges))
    throw UsageError("path is hybrid_radix, which only counts rows; leave it out, or count");
  SortWorkload both;
  both.key_type = workload.key_type;
  both.count = workload.left_rows + workload.right_rows;
  both.value_width = std::max(workload.left_values, workload.right_values);
  both.pageable = both.pageable_out = workload.pageable;
  const std::vector<Candidate> candidates = candidates_for(
      machine, both, {constraints.gpus, constraints.strategy, constraints.memory_limit, constraints.pinned_sort});
  // Joins in host memory only if a side is presorted, or if the join does not fit in core.
  const bool is_sorted = workload.left_presorted || workload.right_presorted;
  std::vector<PricedJoin> found;
  for (const JoinPath path : {JoinPath::in_core, JoinPath::sorted, JoinPath::pairwise, JoinPath::hybrid_radix}) {
    if (constraints.path.value_or(path) != path || (!constraints.path && is_baseline(path))) continue;
    if (!constraints.path && path == JoinPath::sorted && !is_sorted && !found.empty()) continue;
    std::ranges::move(price_in_waves(candidates, /*enough=*/0,
                                     [&](const Candidate& candidate) {
                                       return price(machine, workload, constraints, candidate, path);
                                     }),
                      std::back_inserter(found));
  }
  if (found.empty() &&
      (constraints.path || !constraints.pinned.names.empty() || !constraints.pinned_sort.names.empty()))
    throw OutOfMemoryError(what_does_not_fit(constraints, both.count));
  if (found.empty())
    throw OutOfMemoryError("no join of " + std::to_string(both.count) +
                           " rows fits into the GPUs; raise memory_limit, or use more GPUs");
  simplest_of_the_best_first(found, [](const PricedJoin& each) -> const SortPlan& { return each.plan.sort; });
  choose_batches(machine, workload, constraints, found.front());
  return found;
}

}  // namespace linkwise
