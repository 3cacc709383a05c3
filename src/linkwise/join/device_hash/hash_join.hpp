// A partitioned hash join of what lies on the GPUs, of every kind: nothing is sorted, and rows come in no order.
//
// Both sides are divided by hashes until a part of the shorter one fits a table in the memory of a thread block, where
// the other side's part looks its rows up (primitives/hash_join.hpp). join25 sorts both sides instead; there a row
// moves once for each digit of its key, here once or twice.
#pragma once

#include <optional>
#include <vector>

#include "linkwise/join/device_join.hpp"

namespace linkwise {

/// As `join_device_totals` and `join_device_rows`. Without a result if sorting is the better way, and `way` leaves the
/// choice: keys so frequent that a table would hold little else, or that would overload a GPU, or more pairs to count
/// than rows to sort, as far as samples show; or values of 16 bytes, or too many rows for a GPU.
/// @throws UsageError if `way` does not leave it; OutOfMemoryError, CorruptDataError.
std::optional<JoinTotals> hash_join_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);
std::optional<std::vector<SortedPart>> hash_join_rows(Runtime& runtime, const JoinPlan& plan,
                                                      const DeviceJoinInput& input);

}  // namespace linkwise
