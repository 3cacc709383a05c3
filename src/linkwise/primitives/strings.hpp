// Strings as words and hashes, and which of them are equal.
#pragma once

#include <span>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/string_views.hpp"

namespace linkwise {

/// Words of strings that lie on this device, which compare as the strings from byte `begin` on do: each is of seven
/// bytes, and has 64 bits a row; up to RawStringWords::most of them. `nulls`: a byte for each row, all bits of whose
/// words are set where it is not 0; empty if there are none.
void string_words(Runtime& runtime, Stream stream, const StringPiece& from, const MemoryView& nulls,
                  std::uint64_t begin, std::span<const MemoryView> to);

/// How many bytes each of these strings, which lie on this device, begins with as the first of `other` does, which this
/// device can read: 64 bits for each row, all of it for those that `nulls` has as above.
void shared_lengths(Runtime& runtime, Stream stream, const StringPiece& from, const MemoryView& nulls,
                    const StringPiece& other, const MemoryView& lengths);

/// Mixes strings, which lie on this device, into the hashes of their rows, as mix_into_hashes does elements.
void mix_strings_into_hashes(Runtime& runtime, Stream stream, const StringPiece& strings, const MemoryView& hashes);

/// Adds to `unequal`, of 64 bits, in how many pairs of rows the strings differ, as count_unequal does for elements.
void count_unequal_strings(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> left,
                           const MemoryView& left_rows, std::span<const StringPiece> right,
                           const MemoryView& right_rows, const MemoryView& unequal);

/// Marks the groups in which a string differs from the one before it. `groups`, of 32 bits, are in order, one for each
/// string; `marks`, of 32 bits, has one for each number that a group may have, which is set to 1 or kept.
void mark_unequal_strings(Runtime& runtime, Stream stream, const StringPiece& strings, const MemoryView& groups,
                          const MemoryView& marks);

}  // namespace linkwise
