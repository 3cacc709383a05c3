#include "linkwise/primitives/host/row_hash.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "linkwise/error.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

constexpr std::uint64_t rows_at_once = 1 << 14;  // by one core
constexpr std::uint64_t of_null = 0x9E3779B97F4A7C15;

// With either argument fixed, a bijection of the other.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xD6E8FEB86659FD93;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93;
  return hash ^ (hash >> 29);
}

std::uint64_t mix_bytes(std::uint64_t hash, const std::byte* bytes, std::uint64_t length) {
  std::uint64_t word = 0, left = length;
  for (; left >= sizeof word; left -= sizeof word, bytes += sizeof word) {
    std::memcpy(&word, bytes, sizeof word);
    hash = mix(hash, word);
  }
  word = 0;
  if (left > 0) std::memcpy(&word, bytes, left);
  return mix(mix(hash, word), length);
}

// Hashes rows of one chunk, from its row `first` on.
class ChunkHash {
 public:
  ChunkHash(const ChunkedColumn& column, const ColumnChunk& chunk) : column_(column), chunk_(chunk) {}

  void mix_into(std::span<std::uint64_t> hashes, std::uint64_t first) const {
    switch (column_.layout) {
      case Layout::bits: return each(hashes, first, [&](auto h, auto at) { return mix(h, bit(chunk_.values, at)); });
      case Layout::strings32: return strings<std::int32_t>(hashes, first);
      case Layout::strings64: return strings<std::int64_t>(hashes, first);
      case Layout::fixed: break;
    }
    switch (column_.width) {
      case 1: return numbers<std::uint8_t>(hashes, first);
      case 2: return numbers<std::uint16_t>(hashes, first);
      case 4: return numbers<std::uint32_t>(hashes, first);
      case 8: return numbers<std::uint64_t>(hashes, first);
      default:
        const auto width = static_cast<std::uint64_t>(column_.width);
        each(hashes, first, [&](auto h, auto at) { return mix_bytes(h, chunk_.values + at * width, width); });
    }
  }

 private:
  template <typename Mix>
  void each(std::span<std::uint64_t> hashes, std::uint64_t first, Mix&& mixed) const {
    const std::uint64_t begin = chunk_.offset + first;
    if (chunk_.validity == nullptr) {
      for (std::uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = mixed(hashes[i], begin + i);
    } else {
      for (std::uint64_t i = 0; i < hashes.size(); ++i)
        hashes[i] = bit(chunk_.validity, begin + i) ? mixed(hashes[i], begin + i) : mix(~hashes[i], of_null);
    }
  }

  template <typename Number>
  void numbers(std::span<std::uint64_t> hashes, std::uint64_t first) const {
    each(hashes, first, [values = chunk_.values](std::uint64_t h, std::uint64_t at) {
      Number value;
      std::memcpy(&value, values + at * sizeof value, sizeof value);
      return mix(h, value);
    });
  }

  template <typename Offset>
  void strings(std::span<std::uint64_t> hashes, std::uint64_t first) const {
    each(hashes, first, [&](std::uint64_t h, std::uint64_t at) {
      const auto* offsets = static_cast<const Offset*>(chunk_.offsets);
      return mix_bytes(h, chunk_.values + offsets[at], static_cast<std::uint64_t>(offsets[at + 1] - offsets[at]));
    });
  }

  const ChunkedColumn& column_;
  const ColumnChunk& chunk_;
};

// Mixes the elements of rows from `first` on, which may lie in several chunks.
void mix_rows(const ChunkedColumn& column, std::uint64_t first, std::span<std::uint64_t> hashes) {
  for (const ColumnChunk& chunk : column.chunks) {
    if (hashes.empty()) return;
    if (first >= chunk.count) {
      first -= chunk.count;
      continue;
    }
    const std::uint64_t count = std::min<std::uint64_t>(chunk.count - first, hashes.size());
    ChunkHash(column, chunk).mix_into(hashes.first(count), first);
    hashes = hashes.subspan(count);
    first = 0;
  }
}

}  // namespace

std::uint64_t sum_of_row_hashes(std::span<const ChunkedColumn> columns) {
  constexpr std::uint64_t at_once = 1 << 11;
  const std::uint64_t rows = columns.empty() ? 0 : columns.front().count();
  for (const ChunkedColumn& column : columns)
    if (column.count() != rows) throw UsageError("the columns differ in length");
  const auto blocks = static_cast<std::int64_t>((rows + at_once - 1) / at_once);
  std::uint64_t sum = 0;
#pragma omp parallel for schedule(static) num_threads(team_if(blocks > 8)) reduction(+ : sum)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<std::uint64_t, at_once> hashes{};
    const std::uint64_t first = static_cast<std::uint64_t>(b) * at_once;
    const std::span<std::uint64_t> block = std::span(hashes).first(std::min(at_once, rows - first));
    for (const ChunkedColumn& column : columns) mix_rows(column, first, block);
    for (const std::uint64_t hash : block) sum += hash;
  }
  return sum;
}

void hash_rows(const ChunkedColumn& column, std::span<std::uint64_t> hashes) {
  if (column.count() != hashes.size()) throw UsageError("each row has one hash");
  std::uint64_t done = 0;
  for (const ColumnChunk& chunk : column.chunks) {
    const ChunkHash of_chunk(column, chunk);
    const std::span<std::uint64_t> part = hashes.subspan(done, chunk.count);
    const auto blocks = static_cast<std::int64_t>((chunk.count + rows_at_once - 1) / rows_at_once);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(blocks > 1))
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint64_t first = static_cast<std::uint64_t>(b) * rows_at_once;
      of_chunk.mix_into(part.subspan(first, std::min(rows_at_once, chunk.count - first)), first);
    }
    done += chunk.count;
  }
}

}  // namespace linkwise
