// Rows in order, by one or several columns: which of them are equal.
#pragma once

#include <span>
#include <vector>

#include "linkwise/primitives/string_views.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// For each row the number of different rows before it, of 4 bytes. `columns`, at least one, lie in the order of the
/// rows, with equally many rows on each GPU. Blocks until the ranks are there. @throws OutOfMemoryError.
std::vector<ColumnPart> dense_ranks(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> columns);

/// The positions, of 8 bytes, of the rows that differ from the one before, the first row included, and then the number
/// of rows. Columns as above. Each GPU has those of its rows, the last one also the number. @throws OutOfMemoryError.
std::vector<ColumnPart> starts_of_runs(Runtime& runtime, std::span<const int> gpus,
                                       std::span<const DeviceColumn> columns);

/// The positions, of 8 bytes, of the strings that some of their words do not tell apart: see primitives/ties.hpp. Each
/// GPU has those of its rows. `ranks` are what dense_ranks makes of these words, `words` the last of them, in order.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> tied_rows(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& ranks,
                                  const DeviceColumn& words);

/// The positions, of 8 bytes, of strings in whose group two differ. `groups`, of 4 bytes, are in order, one for each
/// string, and equal for strings of a group. Each GPU has those of its rows. On several GPUs, a group that another GPU
/// may have a part of is taken for one with a difference. @throws OutOfMemoryError.
std::vector<ColumnPart> rows_of_unequal_groups(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& groups,
                                               std::span<const StringPiece> strings);

/// Ranks, of 8 bytes, that tell more apart: `finer`, of 4 bytes, is for the positions that tied_rows has found.
/// @throws OutOfMemoryError.
std::vector<ColumnPart> refined_ranks(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& ranks,
                                      const DeviceColumn& positions, const DeviceColumn& finer);

}  // namespace linkwise
