// Joins of device-resident data; only totals go to the host.
//
// As in sort/device_sort.hpp, the caller's memory is only read, each part by its own GPU, and the join is
// stream-ordered after work that is already queued on the caller's streams.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"

namespace linkwise {

/// The number of rows of the join and, if both sides have values of 4 or 8 bytes, the sums of these over the matches.
/// Blocks until they are known. @throws UsageError, OutOfMemoryError, CorruptDataError.
JoinTotals join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

/// The rows of the join, in key order within and across the GPUs unless any order is allowed. `keys` of a part holds
/// the left side's value of each row and `values` the right side's; a side without values is represented by the row's
/// number in the whole side. All bits are set where a side has no row. In semi and anti joins, the right side
/// contributes nothing. Blocks until the rows are ready.
/// @throws UsageError, OutOfMemoryError, CorruptDataError.
std::vector<SortedPart> join_device_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
