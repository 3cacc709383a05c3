// Strings that lie on the GPUs: copied there, gathered by their row numbers, and made words of.
//
// Each call blocks until the result is there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/host/chunked_column.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// A column of strings, a part on each GPU: offsets of 64 bits into the part's bytes, one more than it has strings.
struct DeviceStrings {
  std::vector<ColumnPart> offsets, bytes;
};

/// Copies a column of strings to the GPUs, an equal share to each. @throws OutOfMemoryError.
DeviceStrings bring_strings(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column);

/// The offsets of each GPU's part in another width, of 4 or 8 bytes; `rows` are its strings. Of a part without rows,
/// which may have no offsets, the one offset is 0. @throws OutOfMemoryError.
std::vector<ColumnPart> resized_offsets(Runtime& runtime, std::span<const int> gpus, int from_bytes,
                                        std::span<const MemoryView> offsets, std::span<const std::uint64_t> rows,
                                        int to_bytes);

/// The last offset of each part: how many bytes up to there belong to it.
std::vector<std::uint64_t> last_offsets(Runtime& runtime, std::span<const MemoryView> offsets);

/// How many bytes all strings begin with alike, and how many the longest one has.
struct StringExtent {
  std::uint64_t shared = 0, longest = 0;
};
/// Strings that `nulls`, as below, says are null may begin in any way.
/// @throws UsageError if the GPUs cannot read each other's memory, OutOfMemoryError.
StringExtent extent_of_strings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> strings,
                               std::span<const MemoryView> nulls);

/// Gathers strings by their row numbers in the whole column, as `take_rows` does elements; no row has an empty string.
/// @throws UsageError if the GPUs cannot read each other's memory, OutOfMemoryError.
DeviceStrings take_strings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> strings,
                           int number_bytes, std::span<const MemoryView> numbers);

/// Words of strings, as primitives/strings.hpp makes them: columns of 64 bits that compare, one after the other, as
/// the strings from byte `begin` on do. Those of rows that `nulls`, which bring_nulls makes, says are null have all
/// bits set; it is empty if there are none. @throws OutOfMemoryError.
std::vector<std::vector<ColumnPart>> words_of_strings(Runtime& runtime, std::span<const int> gpus,
                                                      std::span<const StringPiece> strings, std::uint64_t begin,
                                                      std::size_t words, std::span<const MemoryView> nulls);

}  // namespace linkwise
