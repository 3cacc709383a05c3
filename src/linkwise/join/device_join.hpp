// Joining what lies on the GPUs already; nothing goes to the host but totals.
//
// As in sort/device_sort.hpp, the caller's memory is only read, each GPU its own, and work begins behind what the
// caller's streams hold.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"

namespace linkwise {

/// How many rows the join has and, if both sides have values of 4 or 8 bytes, their sums. Blocks until they are there.
/// @throws UsageError, OutOfMemoryError, CorruptDataError.
JoinTotals join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

/// The rows of the join, by key and spread over the GPUs with it unless any order will do: `keys` of a part are what
/// the left side shows of each row, `values` the right side's, which are its values or, where it came without, the
/// row's number in the whole side; with all bits set where there is no row. Semi and anti joins have nothing of the
/// right. Blocks until they are there.
/// @throws UsageError, OutOfMemoryError, CorruptDataError.
std::vector<SortedPart> join_device_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
