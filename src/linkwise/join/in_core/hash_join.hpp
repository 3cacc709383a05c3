// A partitioned hash join of what lies on the GPUs, for inner joins: what our sort-merge join there is measured
// against. It is our own, and not the hybrid join of Rui et al. to which join25 compares (§4.1.4): that one is out of
// core and partitioned by the host.
//
// Keys are hashed one-to-one, so that the hashes stand for them, and exchanged by their upper bits; each GPU partitions
// by some more of them until a partition of one side fits into the memory that a thread block shares, where it is built
// into a table that the other side's partition looks its rows up in. Rows of one key stay together, so keys that alone
// overload a GPU cannot be joined so; Linkwise itself sorts and spreads them.
#pragma once

#include "linkwise/join/device_join.hpp"

namespace linkwise {

/// As `join_device_totals`, of an inner join; nothing is verified.
/// @throws UsageError for another kind, or if a GPU would get much more than its share; OutOfMemoryError.
JoinTotals hash_join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
