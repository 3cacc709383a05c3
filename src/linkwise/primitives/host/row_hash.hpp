// Hashes of rows. Their sum is a checksum that does not depend on the order of the rows: it tells whether the output
// of a sort has the rows of its input.
#pragma once

#include <cstdint>
#include <span>

#include "linkwise/primitives/host/chunked_column.hpp"

namespace linkwise {

/// Mixes a column's elements into the hashes of their rows, one for each, on all cores. Different elements of up to
/// eight bytes always make different hashes; for longer ones, 1 difference in 2⁶⁴ is missed. The values of nulls are
/// ignored.
void hash_rows(const ChunkedColumn& column, std::span<std::uint64_t> hashes);

/// The sum of all rows' hashes. Each hash starts at 0, and all columns, which have the same number of rows, are mixed
/// into it one after the other; on all cores, in their caches.
std::uint64_t sum_of_row_hashes(std::span<const ChunkedColumn> columns);

}  // namespace linkwise
