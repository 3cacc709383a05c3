// Rows of fixed-width columns as records: a row that is gathered then takes one access to memory, not one a column.
//
// Gathered in random order, a column at a time, each value comes with a cache line of its own, and often with a walk
// through the page tables. Where the columns can be packed while they are in a core's caches, that costs less than
// it saves. (Rows are likewise packed for GPUs; see primitives/cuda.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/host/chunked_column.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"

namespace linkwise {

/// How a record is laid out: a bit for each column, set where its value is not null, then the values.
class PackedLayout {
 public:
  /// `widths`: bytes of each column's values; 0: bits, which take a byte in a record.
  /// @throws UsageError if there are none, or one is negative.
  explicit PackedLayout(std::vector<int> widths);

  [[nodiscard]] std::size_t columns() const { return widths_.size(); }
  [[nodiscard]] int width(std::size_t column) const { return widths_[column]; }
  [[nodiscard]] std::size_t offset(std::size_t column) const { return offsets_[column]; }
  [[nodiscard]] std::size_t mask_bytes() const { return (widths_.size() + 7) / 8; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::vector<int> widths_;
  std::vector<std::size_t> offsets_;
  std::size_t bytes_ = 0;
};

/// Packs all rows of columns, which are equally long and of the layout's widths, on all cores.
/// @throws UsageError if they are not.
void pack_rows(const PackedLayout& layout, std::span<const ChunkedColumn> columns, std::byte* records);

/// The rows with these numbers (of `row_bytes`, 4 or 8), on all cores. `records` is a column of fixed width without
/// nulls. Columns that are not in `may_have_nulls` get no validity. `no_row` gives nulls in those that are, in others
/// 0.
/// @throws OutOfMemoryError; UsageError if a row does not exist.
std::vector<GatheredColumn> gather_packed_rows(const PackedLayout& layout, const ChunkedColumn& records,
                                               const std::vector<bool>& may_have_nulls, const void* rows, int row_bytes,
                                               std::uint64_t count);

}  // namespace linkwise
