// Rows in order, by one or several columns, as numbers that are equal for equal rows.
#pragma once

#include <span>
#include <vector>

#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// For each row the number of different rows before it, of 4 bytes. `columns`, at least one, lie in the order of the
/// rows, with equally many rows on each GPU. Blocks until the ranks are there. @throws OutOfMemoryError.
std::vector<ColumnPart> dense_ranks(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> columns);

}  // namespace linkwise
