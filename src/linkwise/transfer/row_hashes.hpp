// Rows of several columns on the GPUs as hashes that can be joined, and whether the rows that are found are equal.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "linkwise/primitives/string_views.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// Elements of 4 or 8 bytes, or strings, a part on each GPU.
using ComparedColumn = std::variant<DeviceColumn, std::vector<StringPiece>>;

/// A hash of 64 bits for each row of columns that have as many rows each on a GPU. Blocks until they are there.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> row_hashes(Runtime& runtime, std::span<const int> gpus,
                                   std::span<const ComparedColumn> columns);

/// In how many pairs of rows some of the columns, which are of the same kinds, differ, each such column counted. Each
/// GPU has some of the pairs; a row number with all bits set stands for no row, and equals all.
/// @throws UsageError if the GPUs cannot read each other's memory, OutOfMemoryError.
std::uint64_t unequal_pairs(Runtime& runtime, std::span<const int> gpus, std::span<const ComparedColumn> left,
                            std::span<const ComparedColumn> right, int number_bytes,
                            std::span<const MemoryView> left_rows, std::span<const MemoryView> right_rows);

}  // namespace linkwise
