// PARADIS: radix sort in place with all cores (Cho et al., PVLDB 8(12), 2015), the CPU baseline of sort22 (§6).
//
// Most significant digit first. Each thread permutes keys within its own stripe of every bucket; this is speculative,
// since a stripe may have no room left for a key that belongs there. A repair step then moves keys that are still
// misplaced to the end of their bucket, and both steps are repeated for these until none is left. So, unlike
// radix_sort_on_host, it needs no second array and is not stable; but it sorts keys without values, where equal ones
// are indistinguishable.
#pragma once

#include "linkwise/primitives/types.hpp"

namespace linkwise {

void paradis_sort_on_host(KeyWidth width, void* keys, std::uint64_t count);

}  // namespace linkwise
