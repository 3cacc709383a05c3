// Hashes of rows of several columns, and whether rows with equal hashes are equal.
#pragma once

#include <span>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Mixes a column's elements into the hashes of their rows, of 64 bits, which are 0 before the first column.
void mix_into_hashes(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& elements,
                     const MemoryView& hashes);

/// Adds to `unequal`, of 64 bits, in how many pairs of rows a column's elements differ. Both sides' pieces may lie on
/// all devices that this one can read; indices have 4 or 8 bytes. One with all bits set stands for no row, and its pair
/// is not counted.
void count_unequal(Runtime& runtime, Stream stream, KeyWidth width, int index_bytes, std::span<const MemoryView> left,
                   const MemoryView& left_rows, std::span<const MemoryView> right, const MemoryView& right_rows,
                   const MemoryView& unequal);

}  // namespace linkwise
