// PARADIS: radix sort in place with all cores (Cho et al., PVLDB 8(12), 2015), the CPU baseline of sort22 (§6).
//
// Most significant digit first. Threads permute within stripes of their own of every bucket, speculatively, since a
// stripe may have no room left for a record that belongs there; a repair then brings what is still misplaced to the end
// of its bucket, and both go on with what is left there, until nothing is. So it takes no second array, where
// radix_sort_on_host does, and would not be stable: it sorts keys alone, among which equal ones are the same.
#pragma once

#include "linkwise/primitives/types.hpp"

namespace linkwise {

void paradis_sort_on_host(KeyWidth width, void* keys, std::uint64_t count);

}  // namespace linkwise
