#include "linkwise/primitives/host/chunked_column.hpp"

#include <bit>
#include <cstring>

#include "linkwise/team.hpp"

namespace linkwise {

std::uint64_t ChunkedColumn::count() const {
  std::uint64_t sum = 0;
  for (const ColumnChunk& chunk : chunks) sum += chunk.count;
  return sum;
}

double ChunkedColumn::mean_width() const {
  if (!has_strings()) return width;
  std::uint64_t bytes = 0;
  const auto add = [&]<typename Offset>(const ColumnChunk& chunk, const Offset* offsets) {
    bytes += static_cast<std::uint64_t>(offsets[chunk.offset + chunk.count] - offsets[chunk.offset]);
  };
  for (const ColumnChunk& chunk : chunks) {
    if (layout == Layout::strings32) add(chunk, static_cast<const std::int32_t*>(chunk.offsets));
    else add(chunk, static_cast<const std::int64_t*>(chunk.offsets));
  }
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(count(), 1));
}

ChunkFinder::ChunkFinder(const ChunkedColumn& column) {
  for (const ColumnChunk& chunk : column.chunks) begins_.push_back(rows() + chunk.count);
  if (rows() == 0) return;
  shift_ = std::max(0, static_cast<int>(std::bit_width(rows())) - most_bits);
  std::size_t chunk = 0;
  for (std::uint64_t bucket = 0; bucket <= (rows() - 1) >> shift_; ++bucket) {
    while (begins_[chunk + 1] <= bucket << shift_) ++chunk;
    first_.push_back(chunk);
  }
  first_.push_back(begins_.size() - 2);
}

namespace {

const std::uint8_t* bits_of(const ColumnChunk& chunk, Bits which) {
  return which == Bits::validity ? chunk.validity : reinterpret_cast<const std::uint8_t*>(chunk.values);
}

// 64 bits from bit `at` on; reads no byte without any of them.
std::uint64_t word_of(const std::uint8_t* bits, std::uint64_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bits + at / 8, sizeof word);
  const std::uint64_t shift = at % 8;
  return shift == 0 ? word : word >> shift | std::uint64_t{bits[at / 8 + 8]} << (64 - shift);
}

}  // namespace

HugePageBuffer bits_in_one_piece(const ChunkedColumn& column, Bits which) {
  const ChunkFinder finder(column);
  const std::uint64_t rows = finder.rows(), words = (rows + 63) / 64;
  HugePageBuffer buffer(8 * words);
  auto* to = reinterpret_cast<std::uint64_t*>(buffer.data());
#pragma omp parallel for num_threads(team_if(words > 1 << 12))
  for (std::uint64_t w = 0; w < words; ++w) {
    const std::uint64_t first = 64 * w, end = std::min(first + 64, rows);
    std::uint64_t word = 0;
    for (std::uint64_t row = first; row < end;) {  // the part of each chunk
      const std::size_t c = finder.find(row);
      const ColumnChunk& chunk = column.chunks[c];
      const std::uint64_t at = row - finder.begin(c) + chunk.offset, part = std::min(end, finder.begin(c + 1)) - row;
      const std::uint8_t* bits = bits_of(chunk, which);
      if (part == 64) {
        word = bits == nullptr ? ~std::uint64_t{0} : word_of(bits, at);
      } else {
        for (std::uint64_t i = 0; i < part; ++i) {
          const bool is_set = bits == nullptr || (bits[(at + i) / 8] >> ((at + i) % 8) & 1) != 0;
          word |= std::uint64_t{is_set} << (row - first + i);
        }
      }
      row += part;
    }
    to[w] = word;
  }
  return buffer;
}

}  // namespace linkwise
