// Packs several integers of a row into one key that preserves their equality and lexicographic order.
//
// Integers are stored as offsets from their column's minimum, in the fewest bits; the first column has the most
// significant ones (as RowKeys packs columns of fixed width on the host).
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// range: a CodeRange of the column.
void find_range(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& column, const MemoryView& range);
/// keys[i] = keys[i] << bits | code - least, or the latter alone if it is the first column.
void pack(Runtime& runtime, Stream stream, const Packing& packing, const MemoryView& column, KeyWidth key_width,
          const MemoryView& keys);

}  // namespace linkwise
