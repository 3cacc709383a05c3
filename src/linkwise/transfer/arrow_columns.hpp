// Columns in Arrow's layout as numbers on the GPUs: values, bytes that tell nulls, and words in the order of strings.
//
// Each call copies an equal share of the column to each GPU, and blocks until the result is there.
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

}  // namespace linkwise
