// The plans that may be the best, before any is priced.
#pragma once

#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/plan/sort_workload.hpp"

namespace linkwise {

struct Candidate {
  SortPlan plan;
  double wire_seconds = 0;  ///< what it takes at least: all bytes in, and then out again
};

/// By rising wire time. GPU sets of each size are ranked by it, and only the best are candidates; each with every
/// strategy, merge order and choice of ways over other GPUs that it can use.
std::vector<Candidate> candidates_for(const Machine& machine, const SortWorkload& workload,
                                      const SortConstraints& constraints);

}  // namespace linkwise
