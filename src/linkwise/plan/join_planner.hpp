// From a machine and a workload to a join plan.
//
// The GPU sets and ways that a sort of both sides could take (candidates.hpp) are priced by running the very same join
// on a virtual machine in estimate mode: in core where both sides fit, otherwise, or where they lie sorted, in host
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/machine/machine.hpp"
#include "linkwise/plan/sort_planner.hpp"

namespace linkwise {

struct JoinWorkload {
  KeyType key_type = KeyType::u32;
  std::uint64_t left_rows = 0, right_rows = 0;
  ValueWidth left_values = ValueWidth::none, right_values = ValueWidth::none;  ///< summed, or shown in rows
  JoinKind kind = JoinKind::inner;
  bool wants_rows = false;    ///< otherwise totals
  bool wants_ranges = false;  ///< of the rows of each key that matches: join_ranges
  bool left_presorted = false, right_presorted = false;
  std::optional<std::uint64_t> expected_matches;  ///< unless said: see JoinInput
  bool pageable = false;                          ///< inputs and output are not page-locked
  bool verify = true;

  friend bool operator==(const JoinWorkload&, const JoinWorkload&) = default;
};

/// What the caller pins; empty means: choose.
struct JoinConstraints {
  std::vector<int> gpus;
  std::optional<JoinPath> path;
  SortStrategy strategy = SortStrategy::radix;  ///< of each side's sort; others than radix go by host memory
  std::uint64_t memory_limit = 0;               ///< bytes a GPU; 0: all of it
  Pinned<SortPlan> pinned_sort;                 ///< of the other fields of the plan's sorts,
  Pinned<JoinPlan> pinned;                      ///< and of its own
};

struct PricedJoin {
  JoinPlan plan;
  double seconds = 0;
  std::vector<PhaseTime> phases;
};

/// What the simulated clock says a plan takes.
SortReport estimate_join(const Machine& machine, const JoinWorkload& workload, const JoinPlan& plan,
                         std::uint64_t memory_limit = 0);

/// What was priced, by rising time; the first is the plan to use.
/// @throws UsageError if what is pinned is impossible on this machine, OutOfMemoryError if nothing fits.
std::vector<PricedJoin> plan_join(const Machine& machine, const JoinWorkload& workload,
                                  const JoinConstraints& constraints);

}  // namespace linkwise
