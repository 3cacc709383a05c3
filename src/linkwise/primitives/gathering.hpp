// Gathers rows of a column by their numbers, on one device. The column's pieces may lie on all that it can read.
//
// A row number with all bits set stands for no row: it yields an element with all bits set, a cleared bit or an empty
// string. Strings are gathered in two steps: first the lengths, whose prefix sums say where each string begins, then
// the bytes. In between, the host learns the total number of bytes.
#pragma once

#include <span>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/string_views.hpp"

namespace linkwise {

/// Elements of 1, 2, 4, 8 or 16 bytes; indices of 4 or 8.
void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, std::span<const MemoryView> pieces,
            const MemoryView& indices, const MemoryView& to);
void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, const MemoryView& from,
            const MemoryView& indices, const MemoryView& to);

/// to[i] = first[i] or, where that stands for no row, second[i] + offset; indices of 4 or 8 bytes.
void coalesce_rows(Runtime& runtime, Stream stream, int index_bytes, const MemoryView& first, const MemoryView& second,
                   std::uint64_t offset, const MemoryView& to);

/// A column with elements of 1, 2, 4 or 8 bytes.
struct FixedColumn {
  int element_bytes = 0;
  MemoryView elements;
};

/// Packing the columns' rows into records pays if several columns are gathered at random places: memory is read in
/// sectors of 32 bytes, so that a record costs no more than one of its fields. Columns have as many rows each, and come
/// with the widest first.
constexpr int most_packed_columns = RawFields::most, most_record_bytes = 32;
/// 16 or 32. The columns have most_record_bytes at most.
int record_bytes_of(std::span<const FixedColumn> columns);
void pack_rows(Runtime& runtime, Stream stream, std::span<const FixedColumn> columns, const MemoryView& records);
/// Gathers records, and unpacks them into columns. The pieces hold whole records.
void gather_packed(Runtime& runtime, Stream stream, int index_bytes, std::span<const MemoryView> pieces,
                   const MemoryView& indices, std::span<const FixedColumn> to);

/// Gathers bits, all of which lie on this device; if `from` is empty, all are set. Both sides are whole 32-bit words.
void gather_bits(Runtime& runtime, Stream stream, int index_bytes, const MemoryView& from, const MemoryView& indices,
                 const MemoryView& to);

/// to[i] = from[i] + delta, modulo 2^64; offsets of 4 or 8 bytes.
void shift_offsets(Runtime& runtime, Stream stream, int from_bytes, const MemoryView& from, int to_bytes,
                   const MemoryView& to, std::uint64_t delta);
/// lengths: 64 bits for each row.
void gather_lengths(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& lengths);
/// `sums`: the prefix sums of the lengths, one more than rows, with any start value; `to` has exactly the bytes that
/// the lengths add up to.
void gather_strings(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& sums, const MemoryView& to);

/// A byte for each bit of a bitmap in whole words of 32 bits, from bit `first` on.
void expand_bits(Runtime& runtime, Stream stream, const MemoryView& bits, std::uint64_t first, BytesOfBits bytes,
                 const MemoryView& to);
/// The inverse: a bitmap in whole words of 32 bits, from a byte for each of its bits. `num_set`, of 64 bits: how many
/// of them are set.
void pack_bits(Runtime& runtime, Stream stream, const MemoryView& bytes, BytesOfBits as, const MemoryView& bits,
               const MemoryView& num_set);
/// Sets all bits of the elements, of 1, 2, 4 or 8 bytes, whose byte in `nulls` is not 0, so that they are equal.
void fill_nulls(Runtime& runtime, Stream stream, int element_bytes, const MemoryView& nulls,
                const MemoryView& elements);

}  // namespace linkwise
