// An unpartitioned hash join of device-resident data: each GPU has one table of the whole build side in its memory, in
// which its rows of the probe side are looked up where they lie (primitives/join_table.hpp).
#pragma once

#include <optional>
#include <vector>

#include "linkwise/join/device_join.hpp"

namespace linkwise {

/// As `join_device_totals` and `join_device_rows`. If `way` is `chosen`, returns nothing where a partitioned join is
/// cheaper by the machine model, or where keys repeat so often on the shorter side that a table is of no use.
/// @throws UsageError if `way` is `unpartitioned` or `direct` and such a join is impossible; OutOfMemoryError,
/// CorruptDataError.
std::optional<JoinTotals> unpartitioned_join_totals(Runtime& runtime, const JoinPlan& plan,
                                                    const DeviceJoinInput& input);
std::optional<std::vector<SortedPart>> unpartitioned_join_rows(Runtime& runtime, const JoinPlan& plan,
                                                               const DeviceJoinInput& input);

}  // namespace linkwise
