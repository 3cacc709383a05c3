// Sort of keys alone that lie on one GPU, the most significant digits first.
//
// Nothing is prepared and nothing is left to do: native keys are read where they lie, and native keys come out. Where
// the input may be overwritten, the result is all that takes memory.
#pragma once

#include <optional>

#include "linkwise/sort/strategies/device_radix_sort.hpp"

namespace linkwise {

/// Nothing if this sort does not suit the records (few, with values, or, as a sample says, unevenly spread keys) or
/// finds no memory; device_radix_sort makes do with less. `overwrites`: the input may be used as room. `checksum`: gets
/// that of the input, 8 bytes, or none.
std::optional<SortedRecords> sort_on_one_gpu(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input,
                                             bool overwrites, const MemoryView& checksum);

}  // namespace linkwise
