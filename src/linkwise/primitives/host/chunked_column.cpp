#include "linkwise/primitives/host/chunked_column.hpp"

#include <bit>

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

}  // namespace linkwise
