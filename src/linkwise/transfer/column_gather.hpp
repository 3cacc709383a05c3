// Gathers rows of columns in host memory by row number, on several GPUs.
//
// Each column is spread over the GPUs, so that it crosses the host links once; each GPU makes an equal part of the
// result, and reads the parts of the column on other GPUs over the links between them. While one column is gathered,
// the next is copied in and the last one out. Bits take few bytes and are replicated on every GPU. The CPU cores
// meanwhile gather elements of odd widths. join25 (§3.3.2) gathers on the CPU alone, where several random memory
// accesses for each row take longer than transferring all bytes.
#pragma once

#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/transfer/row_numbers.hpp"

namespace linkwise {

/// Whether the column is gathered on GPUs rather than on the CPU.
bool gathers_on_gpus(const ChunkedColumn& column);

/// As `gather_rows` for each of the columns, which have equal lengths. Columns that do not fit in GPU memory together
/// are processed in turns. In an estimate, columns have no data, and `width` of a string column is its mean length.
/// @throws OutOfMemoryError if not even one column fits; UsageError if the GPUs have no access to each other's memory;
/// UsageError, std::overflow_error as `gather_rows`.
std::vector<GatheredColumn> gather_on_gpus(Runtime& runtime, std::span<const int> gpus,
                                           std::span<const ChunkedColumn> columns, const RowNumbers& rows);

}  // namespace linkwise
