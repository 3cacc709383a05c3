// A column in chunks with Arrow's layout, and a finder of the chunk that has a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "linkwise/primitives/host/huge_page_buffer.hpp"

namespace linkwise {

/// Bit `at` of an Arrow bitmap.
inline bool bit(const void* bits, std::uint64_t at) {
  return (static_cast<const std::uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

struct ColumnChunk {
  std::uint64_t count = 0;
  std::uint64_t offset = 0;                ///< of the first element, in everything below
  const std::uint8_t* validity = nullptr;  ///< a bit each; null: no nulls
  const std::byte* values = nullptr;       ///< elements, bits, or all bytes
  const void* offsets = nullptr;           ///< of strings
  bool pageable = true;                    ///< some of it, or all
};

struct ChunkedColumn {
  enum class Layout : std::uint8_t { bits, fixed, strings32, strings64 };
  Layout layout = Layout::fixed;
  int width = 0;  ///< bytes of an element of fixed width; of a string on average, if there is no data
  std::vector<ColumnChunk> chunks;

  [[nodiscard]] bool has_strings() const { return layout >= Layout::strings32; }
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] bool has_validity() const {
    return std::ranges::any_of(chunks, [](const ColumnChunk& chunk) { return chunk.validity != nullptr; });
  }
  /// Bytes of an element, or of a string on average.
  [[nodiscard]] double mean_width() const;
};

/// Finds the chunk of a row. Rows are in random order, so each step of a binary search would be mispredicted: a table
/// says where to search.
class ChunkFinder {
 public:
  explicit ChunkFinder(const ChunkedColumn& column);

  [[nodiscard]] std::uint64_t rows() const { return begins_.back(); }
  [[nodiscard]] std::uint64_t begin(std::size_t chunk) const { return begins_[chunk]; }
  /// The chunk of a row, which must exist.
  [[nodiscard]] std::size_t find(std::uint64_t row) const {
    const std::size_t low = first_[row >> shift_], high = first_[(row >> shift_) + 1];
    if (low == high) return low;
    const std::uint64_t* begins = begins_.data();
    return static_cast<std::size_t>(std::upper_bound(begins + low + 1, begins + high + 1, row) - begins) - 1;
  }

 private:
  static constexpr int most_bits = 13;    // of the table, which has to stay in a core's cache
  std::vector<std::uint64_t> begins_{0};  // where each chunk begins, and the number of rows
  std::vector<std::size_t> first_;        // the chunk of each bucket's first row, and the last chunk
  int shift_ = 0;
};

enum class Bits : std::uint8_t { values, validity };

/// All chunks' bits, concatenated, in whole 64-bit words; chunks without a validity bitmap are valid.
HugePageBuffer bits_in_one_piece(const ChunkedColumn& column, Bits which);

}  // namespace linkwise
