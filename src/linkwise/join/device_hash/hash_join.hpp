// A partitioned hash join of device-resident data, for every join kind. Nothing is sorted, and the result has no
// order.
//
// Both sides are partitioned by hash until a part of the shorter (build) side fits a hash table in shared memory,
// which the matching part of the probe side then probes (primitives/hash_join.hpp). join25 sorts both sides instead,
// which moves a row once for each digit of its key; here a row moves once or twice.
#pragma once

#include <optional>
#include <vector>

#include "linkwise/join/device_join.hpp"

namespace linkwise {

/// As `join_device_totals` and `join_device_rows`. If `way` is `chosen`, returns nothing where a sort-merge join is
/// the better choice: if samples show a key so frequent that it would fill many hash tables or overload a GPU, or far
/// more pairs to count than rows to sort; or if a GPU would get too many rows. Values have 4 or 8 bytes.
/// @throws UsageError if `way` is `hash` and a hash join is impossible; OutOfMemoryError, CorruptDataError.
std::optional<JoinTotals> hash_join_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);
std::optional<std::vector<SortedPart>> hash_join_rows(Runtime& runtime, const JoinPlan& plan,
                                                      const DeviceJoinInput& input);

}  // namespace linkwise
