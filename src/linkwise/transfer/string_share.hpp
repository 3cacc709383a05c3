// Copies a GPU's share of a column of strings in, and makes its offsets relative to the first byte there.
#pragma once

#include <cstdint>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/transfer/column_share.hpp"

namespace linkwise {

constexpr IntegerType length_of_string{8, false};

/// The offsets of each chunk have their own origin, and any width; here they get 64 bits. `raw` has room for them as
/// they are, one more for each chunk than it has rows. `copy_in(to, from, offset, pageable)` copies from host memory.
template <typename CopyIn>
void bring_offsets(Runtime& runtime, Stream stream, const ChunkedColumn& column, Share rows, const MemoryView& raw,
                   const MemoryView& offsets, CopyIn&& copy_in) {
  const std::uint64_t width = offset_bytes(column);
  std::uint64_t row = 0, raw_at = 0, bytes_before = 0;
  for (const ChunkPart& part : parts_of(column, rows)) {
    const std::uint64_t numbers = part.rows.count() + 1;
    const MemoryView of_part = raw.slice(raw_at, numbers * width);
    copy_in(of_part, part.chunk->offsets, (part.chunk->offset + part.rows.begin) * width, part.chunk->pageable);
    const Share bytes = bytes_of(column, part);
    shift_offsets(runtime, stream, static_cast<int>(width), of_part, 8, offsets.slice(8 * row, 8 * numbers),
                  bytes_before - bytes.begin);
    row += part.rows.count();
    raw_at += of_part.bytes;
    bytes_before += bytes.count();
  }
}

/// The strings' bytes, chunk after chunk.
template <typename CopyIn>
void bring_bytes(const ChunkedColumn& column, Share rows, const MemoryView& to, CopyIn&& copy_in) {
  std::uint64_t at = 0;
  for (const ChunkPart& part : parts_of(column, rows)) {
    const Share bytes = bytes_of(column, part);
    copy_in(to.slice(at, bytes.count()), part.chunk->values, bytes.begin, part.chunk->pageable);
    at += bytes.count();
  }
}

}  // namespace linkwise
