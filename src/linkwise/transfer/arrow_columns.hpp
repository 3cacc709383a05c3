// Columns in Arrow's layout as numbers on the GPUs: values, and bytes that tell nulls.
//
// Each call blocks until the result is there; `bring` copies an equal share of a column of host memory to each GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/host/chunked_column.hpp"
#include "linkwise/primitives/pieces.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// A byte for each row of a column: 0, or 255 where it is null. @throws OutOfMemoryError.
std::vector<ColumnPart> bring_nulls(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column);

/// The elements of a column of bools, as bytes, or of a fixed width of up to 8 bytes. Where `nulls`, which bring_nulls
/// makes, says that a row is null, all bits are set; it is empty if there are none. @throws OutOfMemoryError.
std::vector<ColumnPart> bring_values(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column,
                                     std::span<const MemoryView> nulls);

/// Bits on a GPU that begin at bit `first` of a word; of no memory, all are set, as validity in Arrow is.
struct BitsPart {
  MemoryView bits;
  std::uint64_t first = 0, rows = 0;
};
/// A byte for each bit of columns that lie on the GPUs. @throws OutOfMemoryError.
std::vector<ColumnPart> expanded_bits(Runtime& runtime, std::span<const int> gpus, std::span<const BitsPart> parts,
                                      BytesOfBits as);
/// Arrow's bits on a GPU, of validity or bools, and how many of them are set.
struct PackedBits {
  ColumnPart bits;
  std::uint64_t num_set = 0;
};
/// From a byte for each. @throws OutOfMemoryError.
PackedBits packed_bits(Runtime& runtime, int gpu, const MemoryView& bytes, BytesOfBits as);

/// A copy of a column on the GPUs with all bits set where `nulls` says that a row is null. @throws OutOfMemoryError.
std::vector<ColumnPart> with_nulls_filled(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& column,
                                          std::span<const MemoryView> nulls);

}  // namespace linkwise
