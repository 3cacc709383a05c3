// Rows of columns in host memory by their numbers, on several GPUs.
//
// Each column is spread over the GPUs, so that it crosses the links to them once; each GPU makes an equal part of the
// result, and reads what lies on the others over the links between them. While one column is gathered, the next comes
// in and the last goes out. Bits, of which there are few bytes, lie on every GPU. The host's cores meanwhile gather
// elements of odd widths. join25 (§3.3.2) gathers on the cores alone, which at several random accesses
// to memory for each row take longer than all bytes take on the links.
#pragma once

#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/transfer/row_numbers.hpp"

namespace linkwise {

/// Whether GPUs do it, and not the cores.
bool gathers_on_gpus(const ChunkedColumn& column);

/// As `gather_rows` for each of the columns, which are as long as each other. What does not fit into the GPUs' memory
/// goes through it in turns. In an estimate, columns have no data; `width` of one of strings is then their mean length.
/// @throws OutOfMemoryError if not even one column fits; UsageError if the GPUs have no access to each other's memory;
/// UsageError, std::overflow_error as `gather_rows`.
std::vector<GatheredColumn> gather_on_gpus(Runtime& runtime, std::span<const int> gpus,
                                           std::span<const ChunkedColumn> columns, const RowNumbers& rows);

}  // namespace linkwise
