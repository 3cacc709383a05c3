// MSD radix sort on one GPU.
//
// There is no encoding or decoding: it reads native keys in place and writes native keys. If the input may be
// overwritten, the only large allocations are the result and the sort's scratch.
#pragma once

#include <optional>

#include "linkwise/sort/strategies/device_radix_sort.hpp"

namespace linkwise {

/// Returns nothing if this sort does not suit the records (few or, judging from a sample, unevenly spread keys) or
/// lacks memory; device_radix_sort gets by with less. `overwrites`: the input may be used as spare room. `checksum`:
/// receives that of the input (8 bytes), unless empty.
std::optional<SortedRecords> sort_on_one_gpu(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input,
                                             bool overwrites, const MemoryView& checksum);

}  // namespace linkwise
