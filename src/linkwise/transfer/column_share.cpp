#include "linkwise/transfer/column_share.hpp"

#include <algorithm>

namespace linkwise {
namespace {

constexpr double spare = 1.125;  // strings are not equally long everywhere

std::uint64_t offset_at(const ChunkedColumn& column, const ColumnChunk& chunk, std::uint64_t row) {
  const std::uint64_t at = chunk.offset + row;
  if (chunk.offsets == nullptr) return at * static_cast<std::uint64_t>(column.width);  // an estimate
  if (column.layout == ChunkedColumn::Layout::strings32)
    return static_cast<std::uint64_t>(static_cast<const std::int32_t*>(chunk.offsets)[at]);
  return static_cast<std::uint64_t>(static_cast<const std::int64_t*>(chunk.offsets)[at]);
}

}  // namespace

std::uint64_t offset_bytes(const ChunkedColumn& column) {
  return column.layout == ChunkedColumn::Layout::strings32 ? 4 : 8;
}

std::vector<ChunkPart> parts_of(const ChunkedColumn& column, Share rows) {
  std::vector<ChunkPart> parts;
  std::uint64_t begin = 0;
  for (const ColumnChunk& chunk : column.chunks) {
    const std::uint64_t end = begin + chunk.count;
    const Share both{std::max(begin, rows.begin), std::min(end, rows.end)};
    if (both.begin < both.end) parts.push_back({&chunk, {both.begin - begin, both.end - begin}});
    begin = end;
  }
  return parts;
}

Share bytes_of(const ChunkedColumn& column, const ChunkPart& part) {
  return {offset_at(column, *part.chunk, part.rows.begin), offset_at(column, *part.chunk, part.rows.end)};
}

std::uint64_t GatherBytes::known() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : {source, offsets, raw_offsets, made, lengths, sums, scratch, valid, made_valid})
    sum += rounded(bytes);
  return sum;
}

GatherBytes gather_bytes(const Kernels& kernels, const ChunkedColumn& column, bool may_have_nulls, Share source,
                         Share made) {
  GatherBytes bytes;
  if (may_have_nulls) bytes.made_valid = bytes_of_bits(made.count());
  if (column.has_validity()) bytes.valid = bytes_of_bits(column.count());
  if (column.layout == ChunkedColumn::Layout::bits) {
    bytes.source = bytes_of_bits(column.count());
    bytes.made = bytes_of_bits(made.count());
    return bytes;
  }
  if (!column.has_strings()) {
    bytes.source = source.count() * static_cast<std::uint64_t>(column.width);
    bytes.made = made.count() * static_cast<std::uint64_t>(column.width);
    return bytes;
  }
  const std::vector<ChunkPart> parts = parts_of(column, source);
  for (const ChunkPart& part : parts) bytes.source += bytes_of(column, part).count();
  bytes.offsets = 8 * (source.count() + 1);
  bytes.raw_offsets = offset_bytes(column) * (source.count() + parts.size());
  bytes.made = offset_bytes(column) * (made.count() + 1);
  bytes.lengths = 8 * made.count();
  bytes.sums = 8 * (made.count() + 1);
  bytes.scratch = kernels.running_sums_scratch_bytes(made.count());
  const auto mean = static_cast<double>(bytes.source) / static_cast<double>(std::max<std::uint64_t>(source.count(), 1));
  bytes.strings = static_cast<std::uint64_t>(spare * mean * static_cast<double>(made.count()));
  return bytes;
}

}  // namespace linkwise
