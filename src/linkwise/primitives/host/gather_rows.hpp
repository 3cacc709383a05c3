// Gathers rows of a column in host memory by their numbers, on all cores (the materialisation of join25 §3.3.2).
//
// The column may have many chunks, which are read in place. It has elements of fixed width, bits, or strings between
// offsets, all in Arrow's layout.
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

/// In place of an 8-byte row number: yields a null.
inline constexpr std::uint64_t no_row = ~std::uint64_t{0};

/// The rows with these numbers (of `row_bytes`, 4 or 8), or all in order if `rows` is null.
/// @throws OutOfMemoryError; UsageError if a row does not exist; std::overflow_error if strings need more bytes than
/// 32-bit offsets can address.
GatheredColumn gather_rows(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count);

/// A column, and which of its rows are wanted; as above.
struct RowsOfColumn {
  ChunkedColumn column;
  const void* rows = nullptr;
  int row_bytes = 0;
};
/// Gathers `count` rows of each of several columns at once, which is faster if rows are few. The result is empty for
/// a column whose strings need more bytes than 32-bit offsets can address.
std::vector<std::optional<GatheredColumn>> gather_rows(std::span<const RowsOfColumn> columns, std::uint64_t count);

/// @throws UsageError if a row number is neither less than `rows_there_are` nor `no_row`.
void check_rows(const void* rows, int row_bytes, std::uint64_t count, std::uint64_t rows_there_are);

}  // namespace linkwise
