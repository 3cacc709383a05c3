// Joining what lies on the GPUs already; nothing goes to the host but the totals.
//
// As in sort/device_sort.hpp, the caller's memory is only read, each GPU its own, and work begins behind what the
// caller's streams hold.
#pragma once

#include "linkwise/join/join_plan.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {

struct DeviceJoinInput {
  DeviceColumns left, right;  ///< a part of each on each of the plan's GPUs
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< where they are summed
  bool verify = true;
};

/// How many rows the join has and, if both sides have values of 4 or 8 bytes, their sums. Blocks until they are there.
/// @throws UsageError, OutOfMemoryError, CorruptDataError.
JoinTotals join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
