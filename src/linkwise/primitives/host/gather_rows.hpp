// Rows of a column in host memory by their numbers, on all cores (join25 §3.3.2 materialises so).
//
// The column may lie in many chunks, which are read where they lie. Elements of fixed width, bits, and strings
// between offsets; everything is laid out as Arrow does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "linkwise/primitives/host/chunked_column.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

struct GatheredColumn {
  std::uint64_t count = 0;
  std::uint64_t nulls = 0;
  std::optional<HugePageBuffer> validity;  ///< if there are nulls
  std::optional<HugePageBuffer> offsets;   ///< of strings: count + 1, as wide as the column's
  std::optional<HugePageBuffer> values;
  std::uint64_t value_bytes = 0;
};

/// Instead of the number of a row, in 8 bytes: a null.
inline constexpr std::uint64_t no_row = ~std::uint64_t{0};

/// The rows with these numbers (of `row_bytes`, 4 or 8), or all in their order where `rows` is null.
/// @throws OutOfMemoryError; UsageError if a row does not exist; std::overflow_error if strings take more bytes than
/// offsets of 32 bits count.
GatheredColumn gather_rows(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count);

/// A column, and which of its rows are wanted; as above.
struct RowsOfColumn {
  ChunkedColumn column;
  const void* rows = nullptr;
  int row_bytes = 0;
};
/// Of several columns at once, `count` rows of each, which takes less time where these are few. Nothing for those whose
/// strings take more bytes than offsets of 32 bits count.
std::vector<std::optional<GatheredColumn>> gather_rows(std::span<const RowsOfColumn> columns, std::uint64_t count);

/// @throws UsageError if a row is not among the first `rows_there_are`, nor `no_row`.
void check_rows(const void* rows, int row_bytes, std::uint64_t count, std::uint64_t rows_there_are);

}  // namespace linkwise
