// Rui et al.'s hybrid radix join (PVLDB 14(4), 2021), which join25 measures itself against (§4.1.4).
//
// The CPU cores partition both relations by the lowest eight bits of their keys. Each pair of corresponding buckets
// is joined independently on one GPU: copied in, partitioned further by a hash of the keys, and probed in hash tables
// in shared memory. GPUs exchange no data: each record is copied to one GPU once, and all other data movement is done
// by the host.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// Counts the rows of an inner join on 32- or 64-bit integer keys, and sums the values if both sides have summable
/// ones. Does not verify its result, and does not split buckets that exceed GPU memory.
/// @throws UsageError, OutOfMemoryError.
JoinTotals hybrid_radix_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

}  // namespace linkwise
