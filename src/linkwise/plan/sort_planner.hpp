// From a machine and a workload to a sort plan.
//
// Candidates (candidates.hpp) are priced by running the very same sort_host on a virtual machine in estimate mode,
// those with the least wire time first, until what is left cannot be the best.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/plan/sort_workload.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

struct PricedPlan {
  SortPlan plan;
  double seconds = 0;
  std::vector<PhaseTime> phases;
};

/// Runs a plan in estimate mode and reports its simulated time. The report's timeline covers all streams and links.
SortReport estimate_sort(const Machine& machine, const SortWorkload& workload, const SortPlan& plan,
                         std::uint64_t memory_limit = 0);

/// The same for data that lies in equal parts on the plan's GPUs.
SortReport estimate_device_sort(const Machine& machine, const SortWorkload& workload, const SortPlan& plan,
                                bool donated, std::uint64_t memory_limit = 0);

/// @throws UsageError that names the pinned field which no sort on this machine's GPUs can keep.
void check_pinned(const Machine& machine, const std::vector<int>& gpus, const Pinned<SortPlan>& pinned);

/// The priced plans. The first is the plan to use: of those within a percent of the best, the one with the fewest
/// GPUs, then the fewest detours. The others follow in ascending order of time.
/// @throws UsageError or OutOfMemoryError if what is pinned is impossible on this machine.
std::vector<PricedPlan> plan_sort(const Machine& machine, const SortWorkload& workload,
                                  const SortConstraints& constraints);

}  // namespace linkwise
