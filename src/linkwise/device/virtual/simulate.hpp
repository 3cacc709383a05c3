// The simulated clock: a discrete-event simulation of a graph of tasks over shared resources.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// A task starts when everything in `after` has ended and its engine has a free slot. It first spends
/// `fixed_ps`, then moves `work` through `uses` at the rate that max-min sharing gives (work / rate is in
/// nanoseconds: bytes over GB/s, or nanoseconds over a share of a processor).
struct Task {
  std::vector<int> after;  ///< indices of other tasks; without cycles
  std::int64_t fixed_ps = 0;
  double work = 0;
  std::vector<Use> uses;
  int engine = -1;  ///< index into the engine slots; -1: needs none
};

struct Interval {
  std::int64_t start_ps = 0;
  std::int64_t end_ps = 0;
};

/// Deterministic: the same tasks give the same picoseconds. Ties go to the lower index.
std::vector<Interval> simulate(std::span<const Resource> resources, std::span<const Task> tasks,
                               std::vector<int> engine_slots);

}  // namespace linkwise
