// The plans that may be the best, before any is priced.
#pragma once

#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/plan/sort_workload.hpp"

namespace linkwise {

struct Candidate {
  SortPlan plan;
  double wire_seconds = 0;  ///< lower bound on its time: all bytes in, and then out again
};

/// In ascending order of wire time. The GPU sets of each size are ranked by it, and only the best become candidates,
/// each with every strategy, merge order and choice of relay paths that it can use.
std::vector<Candidate> candidates_for(const Machine& machine, const SortWorkload& workload,
                                      const SortConstraints& constraints);

}  // namespace linkwise
