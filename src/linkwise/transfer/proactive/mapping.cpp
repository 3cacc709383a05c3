#include "linkwise/transfer/proactive/mapping.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "linkwise/error.hpp"

namespace linkwise::proactive {
namespace {

std::string in_words(ByteRange range) {
  return "bytes " + std::to_string(range.first) + " to " + std::to_string(range.second);
}

void close(Lists& lists) {
  const auto begin = lists.values.begin() + lists.first.back();
  std::sort(begin, lists.values.end());
  lists.values.erase(std::unique(begin, lists.values.end()), lists.values.end());
  lists.first.push_back(static_cast<std::uint32_t>(lists.values.size()));
}

void check_chunk(std::uint64_t chunk_bytes) {
  if (chunk_bytes == 0 || chunk_bytes % page_bytes != 0)
    throw UsageError("chunks are whole pages of " + std::to_string(page_bytes) + " bytes, not " +
                     std::to_string(chunk_bytes) + " bytes");
}

Chunks divided(ByteRange all, std::uint64_t chunk_bytes, std::uint64_t growth) {
  check_chunk(chunk_bytes);
  Chunks chunks{{all.first}};
  std::uint64_t end = all.first / page_bytes * page_bytes;
  for (std::uint64_t size = chunk_bytes; end < all.second; size += growth)
    chunks.bounds.push_back(std::min(end += size, all.second));
  return chunks;
}

}  // namespace

Chunks Chunks::uniform(ByteRange all, std::uint64_t chunk_bytes) { return divided(all, chunk_bytes, 0); }

Chunks Chunks::growing(ByteRange all, std::uint64_t chunk_bytes) { return divided(all, chunk_bytes, chunk_bytes); }

Mapping::Mapping(Lists pages, std::uint64_t region_bytes, ByteRange all)
    : pages_(std::move(pages)), region_bytes_(region_bytes), all_(all) {
  if (all.first > all.second || all.second > region_bytes)
    throw UsageError(in_words(all) + " are not in a region of " + std::to_string(region_bytes));
  if (region_bytes / page_bytes >= std::numeric_limits<std::uint32_t>::max())
    throw UsageError("a region has 16 TiB at most, not " + std::to_string(region_bytes) + " bytes");
}

Mapping Mapping::of(std::uint32_t blocks, std::uint64_t region_bytes, ByteRange all,
                    const std::function<std::vector<ByteRange>(std::uint32_t block)>& written) {
  Lists pages;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (const ByteRange range : written(block)) {
      if (range.first > range.second || range.first < all.first || range.second > all.second)
        throw UsageError("block " + std::to_string(block) + " is mapped to " + in_words(range) + ", which are not in " +
                         in_words(all));
      if (range.first == range.second) continue;
      for (std::uint64_t page = range.first / page_bytes; page <= (range.second - 1) / page_bytes; ++page)
        pages.values.push_back(static_cast<std::uint32_t>(page));
    }
    close(pages);
  }
  return {std::move(pages), region_bytes, all};
}

Mapping Mapping::contiguous(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t block_bytes,
                            ByteRange all) {
  return stencil(blocks, region_bytes, block_bytes, all, 0);
}

Mapping Mapping::stencil(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t block_bytes, ByteRange all,
                         std::uint64_t halo) {
  return of(blocks, region_bytes, all, [=](std::uint32_t block) {
    const std::uint64_t first = std::min(all.first + block * block_bytes, all.second);
    const std::uint64_t last = std::min(first + block_bytes, all.second);
    return std::vector<ByteRange>{
        {first - std::min(halo, first - all.first), last + std::min(halo, all.second - last)}};
  });
}

Mapping Mapping::strided(std::uint32_t blocks, std::uint64_t region_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                         std::uint64_t stride) {
  return of(blocks, region_bytes, {0, region_bytes}, [=](std::uint32_t block) {
    std::vector<ByteRange> ranges;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t first = std::min(block * row_bytes + row * stride, region_bytes);
      ranges.emplace_back(first, std::min(first + row_bytes, region_bytes));
    }
    return ranges;
  });
}

Mapping Mapping::from_pages(Lists pages_of_blocks, std::uint64_t region_bytes, ByteRange all) {
  for (std::uint32_t block = 0; block < pages_of_blocks.count(); ++block)
    for (const std::uint32_t page : pages_of_blocks.of(block))
      if (page * page_bytes >= all.second || (page + std::uint64_t{1}) * page_bytes <= all.first)
        throw UsageError("block " + std::to_string(block) + " stores outside of " + in_words(all) +
                         ", which is what it was said to write");
  return {std::move(pages_of_blocks), region_bytes, all};
}

bool Mapping::writes(std::uint32_t block, std::uint32_t page) const {
  return std::ranges::binary_search(pages(block), page);
}

Lists Mapping::chunks_of_blocks(const Chunks& chunks) const {
  std::vector<std::uint32_t> chunk_of_page;  // from the first page of all on
  const std::uint64_t first_page = all_.first / page_bytes;
  for (std::uint32_t chunk = 0; chunk < chunks.count(); ++chunk)
    for (std::uint64_t at = chunks.of(chunk).first / page_bytes; at * page_bytes < chunks.of(chunk).second; ++at)
      chunk_of_page.push_back(chunk);
  Lists found;
  for (std::uint32_t block = 0; block < blocks(); ++block) {
    for (const std::uint32_t page : pages(block)) {
      const std::uint32_t chunk = chunk_of_page.at(page - first_page);
      if (found.values.size() == found.first.back() || found.values.back() != chunk) found.values.push_back(chunk);
    }
    found.first.push_back(static_cast<std::uint32_t>(found.values.size()));
  }
  return found;
}

std::vector<std::uint32_t> writers_of_chunks(const Lists& chunks_of_blocks, std::uint32_t chunks) {
  std::vector<std::uint32_t> writers(chunks, 0);
  for (const std::uint32_t chunk : chunks_of_blocks.values) ++writers.at(chunk);
  return writers;
}

}  // namespace linkwise::proactive
