// Which chunks of a region each block of a kernel writes (proact21 §IV-A), so that the last of a chunk's writers is
// known.
//
// A mapping names pages, the smallest chunks there are; larger chunks follow from it. It is made once for a kernel and
// its grid, and is used for every epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace linkwise::proactive {

/// The smallest granularity, and the unit of all others (proact21 table II).
inline constexpr std::uint64_t page_bytes = 4096;

/// Bytes [first, second) of a region.
using ByteRange = std::pair<std::uint64_t, std::uint64_t>;

/// A list of numbers for each i, one after the other: list i is values[first[i]] up to, but not including,
/// values[first[i + 1]].
struct Lists {
  std::vector<std::uint32_t> first{0};
  std::vector<std::uint32_t> values;

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(first.size() - 1); }
  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t i) const {
    return std::span(values).subspan(first[i], first[i + 1] - first[i]);
  }
};

/// How the bytes that a GPU writes are divided into chunks: chunk c has those from bounds[c] to bounds[c + 1]. Chunks
/// are whole pages, except at the two ends.
struct Chunks {
  std::vector<std::uint64_t> bounds;

  static Chunks uniform(ByteRange all, std::uint64_t chunk_bytes);
  /// Each chunk has `chunk_bytes` more than the one before. If sending has a fixed cost per chunk, in which the
  /// kernel makes `chunk_bytes`, this keeps up with the kernel: the next chunk is complete just when the one before
  /// has been sent, and no other sizes take less time from the first block to the last byte.
  static Chunks growing(ByteRange all, std::uint64_t chunk_bytes);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(bounds.size() - 1); }
  [[nodiscard]] ByteRange of(std::uint32_t chunk) const { return {bounds[chunk], bounds[chunk + 1]}; }
};

class Mapping {
 public:
  /// Any mapping: `written(block)` returns the byte ranges that a block writes, which may overlap those of other
  /// blocks. All of them lie in `all`, the bytes that the kernel's GPU writes and sends. No other GPU may write `all`
  /// meanwhile, since chunks are sent whole, including bytes that no block is mapped to. Where `all` of two GPUs
  /// share a page, each sends its own bytes of it.
  /// @throws UsageError for a range that is not in `all`, or `all` that is not in the region.
  static Mapping of(std::uint32_t blocks, std::uint64_t region_bytes, ByteRange all,
                    const std::function<std::vector<ByteRange>(std::uint32_t block)>& written);
  /// Block b writes `block_bytes` bytes from the start of `all` + b · block_bytes on, but none after the end of
  /// `all`.
  static Mapping contiguous(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t block_bytes, ByteRange all);
  /// Block b writes `rows` pieces of `row_bytes`, `stride` bytes apart, the first at b · row_bytes; they are cut off
  /// at the region's end. One GPU writes the whole region.
  static Mapping strided(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                         std::uint64_t stride);
  /// As `contiguous`, plus `halo` bytes on both sides of each block, within `all`.
  static Mapping stencil(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t block_bytes, ByteRange all,
                         std::uint64_t halo);
  /// From the pages that a dry run found each block to write, in rising order. @throws UsageError if one is not in
  /// `all`.
  static Mapping from_pages(Lists pages_of_blocks, std::uint64_t region_bytes, ByteRange all);

  [[nodiscard]] std::uint32_t blocks() const { return pages_.count(); }
  [[nodiscard]] std::uint64_t region_bytes() const { return region_bytes_; }
  [[nodiscard]] ByteRange all() const { return all_; }
  [[nodiscard]] std::span<const std::uint32_t> pages(std::uint32_t block) const { return pages_.of(block); }
  [[nodiscard]] bool writes(std::uint32_t block, std::uint32_t page) const;
  /// The chunks that each block writes, in rising order.
  [[nodiscard]] Lists chunks_of_blocks(const Chunks& chunks) const;

 private:
  Mapping(Lists pages, std::uint64_t region_bytes, ByteRange all);
  Lists pages_;
  std::uint64_t region_bytes_;
  ByteRange all_;
};

/// How many blocks write each of so many chunks.
std::vector<std::uint32_t> writers_of_chunks(const Lists& chunks_of_blocks, std::uint32_t chunks);

}  // namespace linkwise::proactive
