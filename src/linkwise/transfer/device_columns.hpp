// Columns that lie on the GPUs in parts, one behind the other: brought there, rows of them by their numbers, and
// several as one key.
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

/// What a GPU has of a column.
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

/// Elements by their numbers in the whole column: those that a GPU has the numbers of are made there. `numbers` are
/// what each GPU has of them; `column` likewise, or one view of page-locked host memory. A number with all bits set
/// gives an element with all bits set. Blocks until they are there.
/// @throws UsageError if the GPUs cannot read each other's memory, OutOfMemoryError.
std::vector<ColumnPart> take_rows(Runtime& runtime, std::span<const int> gpus, int element_bytes,
                                  std::span<const MemoryView> column, int number_bytes,
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
/// Of two sides of a join, each of which has as many columns as the other: a key for each row, so that rows have equal
/// keys if and only if all their columns are equal. Nothing if that takes more than 64 bits. Of a side, all columns
/// have as many rows on a GPU; of a pair of columns, both are signed, or none. Blocks until the keys are there.
/// @throws OutOfMemoryError.
std::optional<PackedKeys> pack_keys(Runtime& runtime, std::span<const int> gpus,
                                    const std::array<std::vector<IntegerColumn>, 2>& sides);

/// A column, what each GPU has of it, and where all of it goes in pageable memory.
struct FetchedColumn {
  std::vector<MemoryView> parts;
  void* to = nullptr;
};
/// Copies columns to host memory. Blocks until they are there.
void fetch_columns(Runtime& runtime, std::span<const FetchedColumn> columns);

}  // namespace linkwise
