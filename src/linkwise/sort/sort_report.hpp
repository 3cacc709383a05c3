// How a sort is asked for beside its plan, and what it tells of itself.
#pragma once

#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// The order in which keys are expected to come: what an estimate, which has none, assumes of data.
enum class ExpectedOrder { random, sorted, nearly_sorted, reversed };

struct SortOptions {
  bool descending = false;  ///< equal keys keep their order all the same
  bool verify = true;       ///< order and multiset checksum, on the GPUs
  bool as_joined = false;   ///< floats become those by which joins compare: 0.0 for -0.0, and one NaN
  ExpectedOrder expected_order = ExpectedOrder::random;
};

struct SortReport {
  double seconds = 0;  ///< from the first operation to the last, on the runtime's clock
  bool verified = false;
  std::vector<PhaseTime> phases;
  std::vector<TimelineEntry> timeline;
};

/// Of the sort that the runtime has run since its timeline was cleared. Synchronises.
SortReport report_of(Runtime& runtime, const SortOptions& options);

}  // namespace linkwise
