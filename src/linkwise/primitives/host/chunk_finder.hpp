// Which of a column's chunks has a row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace linkwise {

/// Rows come from anywhere in the column, where a search would guess wrong at every step: a table says where to look.
class ChunkFinder {
 public:
  /// `begins` has where each chunk begins, and behind them the number of rows.
  explicit ChunkFinder(std::vector<std::uint64_t> begins) : begins_(std::move(begins)) {
    if (rows() == 0) return;
    shift_ = std::max(0, static_cast<int>(std::bit_width(rows())) - most_bits);
    std::size_t chunk = 0;
    for (std::uint64_t bucket = 0; bucket <= (rows() - 1) >> shift_; ++bucket) {
      while (begins_[chunk + 1] <= bucket << shift_) ++chunk;
      first_.push_back(chunk);
    }
    first_.push_back(begins_.size() - 2);
  }

  [[nodiscard]] std::uint64_t rows() const { return begins_.back(); }
  [[nodiscard]] std::uint64_t begin(std::size_t chunk) const { return begins_[chunk]; }
  /// Of a row that there is.
  [[nodiscard]] std::size_t find(std::uint64_t row) const {
    const std::size_t low = first_[row >> shift_], high = first_[(row >> shift_) + 1];
    if (low == high) return low;
    const std::uint64_t* begins = begins_.data();
    return static_cast<std::size_t>(std::upper_bound(begins + low + 1, begins + high + 1, row) - begins) - 1;
  }

 private:
  static constexpr int most_bits = 13;  // of the table, which has to stay in a core's cache
  std::vector<std::uint64_t> begins_;
  std::vector<std::size_t> first_;  // the chunk of each bucket's first row, and the last chunk
  int shift_ = 0;
};

}  // namespace linkwise
