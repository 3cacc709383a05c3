// Hashes of rows, whose sum tells whether what comes out of a sort is what went in, in whatever order.
#pragma once

#include <cstdint>
#include <span>

#include "linkwise/primitives/host/chunked_column.hpp"

namespace linkwise {

/// Mixes a column's elements into the hashes of their rows, of which there are as many, on all cores. Elements of up to
/// eight bytes that differ leave different hashes; of longer ones, 1 in 2⁶⁴ is overlooked. What lies under a null is
/// nobody's business.
void hash_rows(const ChunkedColumn& column, std::span<std::uint64_t> hashes);

/// The sum of the hashes of all rows, into which all columns, of as many rows each, were mixed one after the other from
/// 0 on; on all cores, in their caches.
std::uint64_t sum_of_row_hashes(std::span<const ChunkedColumn> columns);

}  // namespace linkwise
