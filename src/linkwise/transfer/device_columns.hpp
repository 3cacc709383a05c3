// Columns that are spread over the GPUs in consecutive parts: copying them in and out, gathering their rows, and
// packing several of them into one key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// A GPU's part of a column.
struct ColumnPart {
  int gpu = 0;
  Buffer memory;
  std::shared_ptr<SharedEvent> ready;
};

/// A column in host memory.
struct HostColumn {
  const void* data = nullptr;
  std::uint64_t count = 0;
  int element_bytes = 0;
  bool pageable = false;
};

/// Copies a column to the GPUs, an equal share to each. Blocks until it is there. @throws OutOfMemoryError.
std::vector<ColumnPart> bring_column(Runtime& runtime, std::span<const int> gpus, const HostColumn& column);

/// The numbers of all rows, of 4 or 8 bytes, with so many rows on each GPU. Blocks until they are there.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> number_rows(Runtime& runtime, std::span<const int> gpus, std::span<const std::uint64_t> rows,
                                    int number_bytes);

/// A column of so many rows on each GPU, every byte of which is the same. Blocks until it is there.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> filled_column(Runtime& runtime, std::span<const int> gpus, std::span<const std::uint64_t> rows,
                                      int element_bytes, std::uint8_t byte);

/// On each GPU, its part of the first column and then that of the second. Blocks until they are there.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> appended_columns(Runtime& runtime, std::span<const int> gpus, std::span<const MemoryView> first,
                                         std::span<const MemoryView> second);

/// The codes of 4 or 8 bytes that joins compare, one for equal floats. Blocks until they are there.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> joined_codes(Runtime& runtime, std::span<const int> gpus, KeyType type,
                                     std::span<const MemoryView> column);

/// The first of two row numbers, of 4 or 8 bytes, or the second + offset where the first stands for no row: those of a
/// full join's rows in both sides, one after the other. Blocks until they are there. @throws OutOfMemoryError.
std::vector<ColumnPart> coalesced_rows(Runtime& runtime, std::span<const int> gpus, int number_bytes,
                                       std::span<const MemoryView> first, std::span<const MemoryView> second,
                                       std::uint64_t offset);

/// Gathers elements by their row numbers in the whole column. `numbers` is the gather map, in one part per GPU, and
/// each GPU makes the elements of its part. `column` consists of parts on these GPUs, or is one view of pinned host
/// memory. A number with all bits set gives an element with all bits set. Blocks until the elements are ready.
/// @throws UsageError if the GPUs cannot read each other's memory, OutOfMemoryError.
std::vector<ColumnPart> take_rows(Runtime& runtime, std::span<const int> gpus, int element_bytes,
                                  std::span<const MemoryView> column, int number_bytes,
                                  std::span<const MemoryView> numbers);

/// A column with elements of 1, 2, 4 or 8 bytes: what each GPU has of it.
struct DeviceColumn {
  int element_bytes = 0;
  std::vector<MemoryView> parts;
};
/// Gathers the same rows of several columns, as `take_rows` does of one. For rows in random order: those of several
/// columns are packed first, which takes room for 16 or 32 bytes a row; where there is none, they are not.
std::vector<std::vector<ColumnPart>> take_columns(Runtime& runtime, std::span<const int> gpus,
                                                  std::span<const DeviceColumn> columns, int number_bytes,
                                                  std::span<const MemoryView> numbers);

/// A column of integers: what each GPU has of it.
struct IntegerColumn {
  IntegerType type;
  std::vector<MemoryView> parts;
};
/// The keys of both sides of a join.
struct PackedKeys {
  KeyWidth width = KeyWidth::k64;
  std::array<std::vector<ColumnPart>, 2> sides;
};
/// Packs the key columns of both sides of a join into one key for each row, so that two rows have equal keys if and
/// only if all their columns are equal. Returns nothing if that takes more than 64 bits. Both sides have the same
/// number of columns; the columns of a side have equal numbers of rows on each GPU; two corresponding columns are
/// both signed or both unsigned. Blocks until the keys are ready.
/// @throws OutOfMemoryError.
std::optional<PackedKeys> pack_keys(Runtime& runtime, std::span<const int> gpus,
                                    const std::array<std::vector<IntegerColumn>, 2>& sides);

/// A column's parts on the GPUs, and its destination in pageable memory.
struct FetchedColumn {
  std::vector<MemoryView> parts;
  void* to = nullptr;
};
/// Copies columns to host memory. Blocks until they are there.
void fetch_columns(Runtime& runtime, std::span<const FetchedColumn> columns);

}  // namespace linkwise
