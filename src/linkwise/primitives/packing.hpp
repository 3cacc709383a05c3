// Several integers of a row as one key: equal where all of them are, and in their order.
//
// Of each integer come as many bits as the difference of its column's least and greatest needs, the first column's on
// top (as RowKeys packs columns of fixed width on the host).
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// range: a CodeRange of the column.
void find_range(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& column, const MemoryView& range);
/// keys[i] = keys[i] << bits | code - least, or the latter alone if it is the first column.
void pack(Runtime& runtime, Stream stream, const Packing& packing, const MemoryView& column, KeyWidth key_width,
          const MemoryView& keys);

}  // namespace linkwise
