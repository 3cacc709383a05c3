// Columns in Arrow's layout as numbers on the GPUs: values, bytes that tell nulls, and words in the order of strings.
//
// Each call blocks until the result is there; `bring` copies an equal share of a column of host memory to each GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/host/chunked_column.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// A byte for each row of a column: 0, or 255 where it is null. @throws OutOfMemoryError.
std::vector<ColumnPart> bring_nulls(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column);

/// The elements of a column of bools, as bytes, or of a fixed width of up to 8 bytes. Where `nulls`, which bring_nulls
/// makes, says that a row is null, all bits are set; it is empty if there are none. @throws OutOfMemoryError.
std::vector<ColumnPart> bring_values(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column,
                                     std::span<const MemoryView> nulls);

/// Words of strings, as primitives/gathering.hpp makes them: columns of 64 bits that compare, one after the other, as
/// the strings from byte `begin` on do. Those of null rows have all bits set. @throws OutOfMemoryError.
std::vector<std::vector<ColumnPart>> bring_string_words(Runtime& runtime, std::span<const int> gpus,
                                                        const ChunkedColumn& column, std::uint64_t begin,
                                                        std::size_t words, std::span<const MemoryView> nulls);

/// Of a column that lies on the GPUs, with bits of validity on each that begin at bit `first` of a word: bytes as
/// bring_nulls makes them. @throws OutOfMemoryError.
struct ValidityPart {
  MemoryView bits;
  std::uint64_t first = 0, rows = 0;
};
std::vector<ColumnPart> nulls_of(Runtime& runtime, std::span<const int> gpus, std::span<const ValidityPart> parts);

/// A copy of a column on the GPUs with all bits set where `nulls` says that a row is null. @throws OutOfMemoryError.
std::vector<ColumnPart> with_nulls_filled(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& column,
                                          std::span<const MemoryView> nulls);

/// Arrow's bits of validity on a GPU, from bytes as bring_nulls makes them. @throws OutOfMemoryError.
ColumnPart validity_of(Runtime& runtime, int gpu, const MemoryView& nulls);

}  // namespace linkwise
