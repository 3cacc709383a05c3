// Rui et al.'s hybrid radix join (PVLDB 14(4), 2021), which join25 measures itself against (§4.1.4).
//
// The host's cores partition both relations by the lowest eight bits of their keys. Buckets with the same bits are
// joined on a GPU, each pair by itself: copied in, partitioned further by a hash of the keys, and probed in hash tables
// in the memory that a thread block shares. GPUs share nothing: none sends to another, so that each record crosses to
// one GPU once, and everything else that is moved is moved by the host.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// Inner joins of integers of 32 or 64 bits, counted, with sums of values where both sides have some. Verifies nothing.
/// A bucket that no GPU has room for is not cut. @throws UsageError, OutOfMemoryError.
JoinTotals hybrid_radix_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

}  // namespace linkwise
