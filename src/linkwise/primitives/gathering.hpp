// Rows of a column by their numbers, on one device: the column lies in pieces on all that this one can read.
//
// A row number with all bits set stands for no row: its element has all bits set, its bit is not set, its string is
// empty. Strings take two steps, between which the host learns how many bytes they have: lengths, whose running sums
// say where each begins, and then the bytes.
#pragma once

#include <span>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Elements of 1, 2, 4, 8 or 16 bytes; indices of 4 or 8.
void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, std::span<const MemoryView> pieces,
            const MemoryView& indices, const MemoryView& to);
void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, const MemoryView& from,
            const MemoryView& indices, const MemoryView& to);

/// Bits, all of which lie on this device, or are set if `from` is empty; both sides have whole words of 32.
void gather_bits(Runtime& runtime, Stream stream, int index_bytes, const MemoryView& from, const MemoryView& indices,
                 const MemoryView& to);

/// A piece of a column of strings: offsets of 64 bits into its bytes, one more than there are strings.
struct StringPiece {
  MemoryView offsets;
  MemoryView bytes;
};

/// to[i] = from[i] + delta, modulo 2^64; offsets of 4 or 8 bytes.
void shift_offsets(Runtime& runtime, Stream stream, int from_bytes, const MemoryView& from, int to_bytes,
                   const MemoryView& to, std::uint64_t delta);
/// lengths: 64 bits for each row.
void gather_lengths(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& lengths);
/// `sums`: the running sums of the lengths, one more than rows, counted from anywhere; `to` has as many bytes as they.
void gather_strings(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& sums, const MemoryView& to);

}  // namespace linkwise
