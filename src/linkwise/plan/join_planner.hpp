// From a machine and a workload to a join plan.
//
// The candidates for a sort of both sides (GPU sets and relay paths, candidates.hpp) are priced by running the same
// join on a virtual machine in estimate mode: in core if both sides fit, and in host memory if they do not, or if a
// side is presorted.
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
  bool wants_ranges = false;  ///< ranges of the rows of each matching key: join_ranges
  bool left_presorted = false, right_presorted = false;
  std::optional<std::uint64_t> expected_matches;  ///< if not set: see JoinInput
  bool pageable = false;                          ///< inputs and output are not pinned
  bool verify = true;

  friend bool operator==(const JoinWorkload&, const JoinWorkload&) = default;
};

/// What the caller pins; the planner chooses what is left empty.
struct JoinConstraints {
  std::vector<int> gpus;
  std::optional<JoinPath> path;
  SortStrategy strategy = SortStrategy::radix;  ///< of each side's sort; with any but radix, the join is not in core
  std::uint64_t memory_limit = 0;               ///< bytes a GPU; 0: all of it
  Pinned<SortPlan> pinned_sort;                 ///< pinned fields of the plan's sorts,
  Pinned<JoinPlan> pinned;                      ///< and of the plan itself
};

struct PricedJoin {
  JoinPlan plan;
  double seconds = 0;
  std::vector<PhaseTime> phases;
};

/// Runs a plan in estimate mode and reports its simulated time.
SortReport estimate_join(const Machine& machine, const JoinWorkload& workload, const JoinPlan& plan,
                         std::uint64_t memory_limit = 0);

/// The priced plans. The first is the plan to use; the others follow in ascending order of time.
/// @throws UsageError if what is pinned is impossible on this machine, OutOfMemoryError if nothing fits.
std::vector<PricedJoin> plan_join(const Machine& machine, const JoinWorkload& workload,
                                  const JoinConstraints& constraints);

}  // namespace linkwise
