// A GPU's share of a column in host memory: where it lies in the column's chunks, and the memory to gather it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "linkwise/device/arena.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// [begin, end) of rows or bytes.
struct Share {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
};
/// Share `part` of `count` items that are divided equally; each share begins at a multiple of `unit`.
inline Share share_of(std::uint64_t count, std::size_t part, std::size_t parts, std::uint64_t unit = 1) {
  const auto at = [&](std::size_t p) { return std::min(count, align_up(count * p / parts, unit)); };
  return {at(part), at(part + 1)};
}

/// Rows of one chunk, relative to its first row.
struct ChunkPart {
  const ColumnChunk* chunk = nullptr;
  Share rows;
};
std::vector<ChunkPart> parts_of(const ChunkedColumn& column, Share rows);
/// The range of the bytes of these rows' strings.
Share bytes_of(const ChunkedColumn& column, const ChunkPart& part);
/// The width of the offsets of strings: 4 or 8.
std::uint64_t offset_bytes(const ChunkedColumn& column);

/// The memory that a GPU needs while it gathers a column, in bytes.
struct GatherBytes {
  std::uint64_t source = 0;       ///< elements, or bytes of strings
  std::uint64_t offsets = 0;      ///< of strings, 64 bits each
  std::uint64_t raw_offsets = 0;  ///< as they are in host memory
  std::uint64_t made = 0;         ///< elements, or offsets
  std::uint64_t lengths = 0, sums = 0, scratch = 0;
  std::uint64_t valid = 0, made_valid = 0;  ///< bits, if there are nulls or may be some
  std::uint64_t strings = 0;                ///< the resulting ones; estimated

  /// The sum of all but `strings`.
  [[nodiscard]] std::uint64_t known() const;
};
GatherBytes gather_bytes(const Kernels& kernels, const ChunkedColumn& column, bool may_have_nulls, Share source,
                         Share made);

/// The bytes of `count` bits, in whole words of 32 bits.
inline std::uint64_t bytes_of_bits(std::uint64_t count) { return (count + 31) / 32 * 4; }

inline std::uint64_t rounded(std::uint64_t bytes) { return align_up(bytes, device_alignment); }

}  // namespace linkwise
