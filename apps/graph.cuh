// Sparse matrices divided by rows among GPUs.
#pragma once

#include "alternating.hpp"

namespace linkwise::apps {

struct RowsOnGpu {
  const std::uint64_t* first;
  const std::uint32_t* column;
  const float* value;
  std::uint64_t begin, end, offset;  ///< the row range, and the number of entries before it

  [[nodiscard]] LINKWISE_HOST_DEVICE std::uint64_t entry(std::uint64_t row) const {
    return first[row - begin] - offset;
  }
};

/// The rows of a matrix, divided among a team's GPUs.
class DividedRows {
 public:
  DividedRows(const Team& team, const std::vector<std::uint64_t>& cuts, const SparseRows& rows, bool has_values)
      : first_(team, "first"), column_(team, "column"), value_(team, "value") {
    for (std::size_t g = 0; g < team.gpus.size(); ++g) {
      const std::uint64_t begin = cuts[g], end = cuts[g + 1];
      // Without data, every row is assumed to have the same number of entries.
      const std::uint64_t from = rows.first != nullptr ? rows.first[begin] : rows.entries * begin / rows.rows;
      const std::uint64_t to = rows.first != nullptr ? rows.first[end] : rows.entries * end / rows.rows;
      const int gpu = team.gpus[g];
      const auto part = [&](const auto* data, std::uint64_t at) { return data == nullptr ? nullptr : data + at; };
      first_.add(gpu, part(rows.first, begin), (end - begin + 1) * sizeof *rows.first);
      column_.add(gpu, part(rows.column, from), (to - from) * sizeof *rows.column);
      if (has_values) value_.add(gpu, part(rows.value, from), (to - from) * sizeof *rows.value);
      parts_.push_back({first_.data<std::uint64_t>(g), column_.data<std::uint32_t>(g),
                        has_values ? value_.data<float>(g) : nullptr, begin, end, from});
      entries_.push_back(to - from);
    }
  }

  [[nodiscard]] const RowsOnGpu& part(std::size_t g) const { return parts_[g]; }
  [[nodiscard]] std::vector<MemoryView> reads(std::size_t g) const {
    std::vector views{first_.view(g), column_.view(g)};
    if (parts_[g].value != nullptr) views.push_back(value_.view(g));
    return views;
  }
  /// Bytes of memory traffic of a pass over the part: `of_entry` per entry, including random reads, and `of_row` per
  /// row.
  [[nodiscard]] double bytes(std::size_t g, double of_entry, double of_row) const {
    return static_cast<double>(entries_[g]) * of_entry + static_cast<double>(parts_[g].end - parts_[g].begin) * of_row;
  }

 private:
  Parts first_, column_, value_;
  std::vector<RowsOnGpu> parts_;
  std::vector<std::uint64_t> entries_;
};

}  // namespace linkwise::apps
