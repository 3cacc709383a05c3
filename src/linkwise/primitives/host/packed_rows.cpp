#include "linkwise/primitives/host/packed_rows.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "linkwise/error.hpp"
#include "linkwise/primitives/host/value_copies.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t block = 256;  // rows, whose records stay in a core's cache from the first column to the last
constexpr std::uint64_t worthwhile = 1 << 14;  // rows from which several threads pay off
constexpr std::size_t line = 64;

// Packs the rows [first, first + count) of a chunk's column into records.
void pack_values(const PackedLayout& layout, std::size_t column, const ColumnChunk& chunk, std::uint64_t first,
                 std::uint64_t count, std::byte* records) {
  const std::uint64_t at = chunk.offset + first;
  const std::size_t stride = layout.bytes();
  std::byte* to = records + layout.offset(column);
  if (layout.width(column) == 0) {
    for (std::uint64_t i = 0; i < count; ++i) to[i * stride] = static_cast<std::byte>(bit(chunk.values, at + i));
  } else {
    with_width(static_cast<std::size_t>(layout.width(column)), [&](auto&& width) {
      const std::byte* from = chunk.values + at * width();
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * width(), width());
    });
  }
  if (chunk.validity == nullptr) return;
  std::byte* mask = records + column / 8;
  for (std::uint64_t i = 0; i < count; ++i)
    if (!bit(chunk.validity, at + i)) mask[i * stride] &= ~(std::byte{1} << (column % 8));
}

// Where each row of a block lies. `no_row` has a record of zeros: null in columns that may have nulls, otherwise 0.
using Sources = std::array<const std::byte*, block>;

class PackedGather {
 public:
  PackedGather(const PackedLayout& layout, const ChunkedColumn& records, const std::vector<bool>& may_have_nulls,
               std::uint64_t count)
      : layout_(layout), records_(records), finder_(records), none_(layout.bytes()), found_(layout.columns()) {
    for (std::size_t c = 0; c < found_.size(); ++c) {
      const auto width = static_cast<std::uint64_t>(layout.width(c));
      found_[c].count = count;
      found_[c].value_bytes = width == 0 ? (count + 7) / 8 : count * width;
      values_.push_back(found_[c].values.emplace(found_[c].value_bytes).data());
      validity_.push_back(may_have_nulls[c] ? found_[c].validity.emplace((count + 7) / 8).data() : nullptr);
    }
    nulls_ = std::vector<std::atomic<std::uint64_t>>(found_.size());
  }

  // Returns false if a row does not exist.
  template <typename Row>
  bool gather(std::uint64_t first, std::span<const Row> rows) {
    Sources from;
    for (std::uint64_t i = 0; i < rows.size(); ++i) {
      from[i] = source(rows[i]);
      if (from[i] == nullptr) return false;
      for (std::size_t at = 0; at < layout_.bytes(); at += line) __builtin_prefetch(from[i] + at);
      __builtin_prefetch(from[i] + layout_.bytes() - 1);
    }
    for (std::size_t c = 0; c < found_.size(); ++c) {
      take_values(c, first, rows.size(), from);
      if (validity_[c] != nullptr) take_validity(c, first, rows.size(), from);
    }
    return true;
  }

  std::vector<GatheredColumn> finish() {
    for (std::size_t c = 0; c < found_.size(); ++c) {
      found_[c].nulls = nulls_[c];
      if (found_[c].nulls == 0) found_[c].validity.reset();
    }
    return std::move(found_);
  }

 private:
  template <typename Row>
  [[nodiscard]] const std::byte* source(Row row) const {
    if (row >= finder_.rows()) return sizeof(Row) == 8 && row == no_row ? none_.data() : nullptr;
    const std::size_t chunk = finder_.find(row);
    const ColumnChunk& in = records_.chunks[chunk];
    return in.values + (in.offset + row - finder_.begin(chunk)) * layout_.bytes();
  }

  void take_values(std::size_t c, std::uint64_t first, std::uint64_t count, const Sources& from) {
    const std::size_t offset = layout_.offset(c);
    if (layout_.width(c) == 0) {
      write_bits(values_[c] + first / 8, count, [&](std::uint64_t i) { return from[i][offset] != std::byte{0}; });
      return;
    }
    with_width(static_cast<std::size_t>(layout_.width(c)), [&](auto&& width) {
      std::byte* to = values_[c] + first * width();
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * width(), from[i] + offset, width());
    });
  }

  // Blocks begin at whole bytes.
  void take_validity(std::size_t c, std::uint64_t first, std::uint64_t count, const Sources& from) {
    nulls_[c] += count - write_bits(validity_[c] + first / 8, count, [&](std::uint64_t i) {
                   return (from[i][c / 8] >> (c % 8) & std::byte{1}) != std::byte{0};
                 });
  }

  const PackedLayout& layout_;
  const ChunkedColumn& records_;
  const ChunkFinder finder_;
  const std::vector<std::byte> none_;
  std::vector<GatheredColumn> found_;
  std::vector<std::byte*> values_, validity_;  // of each column of the result; the second may be null
  std::vector<std::atomic<std::uint64_t>> nulls_;
};

template <typename Row>
void gather_all(PackedGather& gather, const Row* rows, std::uint64_t count) {
  std::atomic<bool> missing = false;
#pragma omp parallel for schedule(static) num_threads(team_if(count > worthwhile))
  for (std::uint64_t first = 0; first < count; first += block)
    if (!gather.gather(first, std::span(rows + first, std::min(block, count - first)))) missing = true;
  if (missing) throw UsageError("a row that is asked for does not exist");
}

}  // namespace

PackedLayout::PackedLayout(std::vector<int> widths) : widths_(std::move(widths)), bytes_(mask_bytes()) {
  if (widths_.empty()) throw UsageError("a record has one column at least");
  for (const int width : widths_) {
    if (width < 0) throw UsageError("a column's width is not negative");
    offsets_.push_back(bytes_);
    bytes_ += static_cast<std::size_t>(std::max(width, 1));
  }
}

void pack_rows(const PackedLayout& layout, std::span<const ChunkedColumn> columns, std::byte* records) {
  if (columns.size() != layout.columns()) throw UsageError("a record has a value of each column");
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const int width = columns[c].layout == ChunkedColumn::Layout::bits ? 0 : columns[c].width;
    if (columns[c].has_strings() || width != layout.width(c) || columns[c].count() != columns.front().count())
      throw UsageError("a column is not of the records' width or length");
  }
  const std::uint64_t rows = columns.front().count();
  std::vector<ChunkFinder> finders(columns.begin(), columns.end());
#pragma omp parallel for schedule(static) num_threads(team_if(rows > worthwhile))
  for (std::uint64_t first = 0; first < rows; first += block) {
    const std::uint64_t end = std::min(first + block, rows);
    for (std::uint64_t row = first; row < end; ++row)
      std::memset(records + row * layout.bytes(), 0xff, layout.mask_bytes());
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::uint64_t row = first; row < end;) {  // a block may lie in several chunks
        const std::size_t chunk = finders[c].find(row);
        const std::uint64_t in_chunk = row - finders[c].begin(chunk);
        const std::uint64_t count = std::min(end - row, columns[c].chunks[chunk].count - in_chunk);
        pack_values(layout, c, columns[c].chunks[chunk], in_chunk, count, records + row * layout.bytes());
        row += count;
      }
    }
  }
}

std::vector<GatheredColumn> gather_packed_rows(const PackedLayout& layout, const ChunkedColumn& records,
                                               const std::vector<bool>& may_have_nulls, const void* rows, int row_bytes,
                                               std::uint64_t count) {
  const bool are_records = records.layout == ChunkedColumn::Layout::fixed && !records.has_validity() &&
                           static_cast<std::size_t>(records.width) == layout.bytes();
  if (!are_records || may_have_nulls.size() != layout.columns())
    throw UsageError("these are not records of this layout");
  PackedGather gather(layout, records, may_have_nulls, count);
  if (row_bytes == 4) gather_all(gather, static_cast<const std::uint32_t*>(rows), count);
  else gather_all(gather, static_cast<const std::uint64_t*>(rows), count);
  return gather.finish();
}

}  // namespace linkwise
