// The options of a sort besides its plan, and its report.
#pragma once

#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// The expected order of the input keys: an estimate, which has no data, assumes it.
enum class ExpectedOrder { random, sorted, nearly_sorted, reversed };

struct SortOptions {
  bool descending = false;  ///< equal keys keep their order in either case
  bool verify = true;       ///< check the order and a multiset checksum, on the GPUs
  bool as_joined = false;   ///< make floats those that joins compare: -0.0 becomes 0.0, all NaNs one NaN
  ExpectedOrder expected_order = ExpectedOrder::random;
};

struct SortReport {
  double seconds = 0;  ///< from the first operation to the last, on the runtime's clock
  bool verified = false;
  std::vector<PhaseTime> phases;
  std::vector<TimelineEntry> timeline;
};

/// The report on what the runtime has run since its timeline was cleared. Synchronises.
SortReport report_of(Runtime& runtime, const SortOptions& options);

}  // namespace linkwise
