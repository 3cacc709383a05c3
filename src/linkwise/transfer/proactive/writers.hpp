// Where a kernel's stores go: the types of `Out` that it is called with, one for each way in which it is run.
#pragma once

#include <cstdint>
#include <string>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/block.hpp"
#include "linkwise/transfer/proactive/mapping.hpp"

namespace linkwise::proactive {

inline constexpr int most_gpus = 16;

/// The page in which an element ends.
template <typename T>
LINKWISE_HOST_DEVICE constexpr std::uint64_t last_page_of(std::uint64_t i) {
  return (i * sizeof(T) + sizeof(T) - 1) / page_bytes;
}

/// Into the GPU's own mirror; an agent sends the chunks.
template <typename T>
struct LocalWriter {
  T* data;
  LINKWISE_HOST_DEVICE void store(std::uint64_t i, const T& value) const { data[i] = value; }
};

/// Into the GPU's own mirror and those of its peers: proact21's inline stores.
template <typename T>
struct PeerWriter {
  T* data;
  T* peers[most_gpus];
  int count;
  const std::uint32_t* interest;  ///< of each page, a bit for each of `peers`; null: all
  LINKWISE_HOST_DEVICE void store(std::uint64_t i, const T& value) const {
    data[i] = value;
    std::uint32_t wanted = interest == nullptr ? ~0U : interest[i * sizeof(T) / page_bytes];
    if constexpr (page_bytes % sizeof(T) != 0)  // an element may lie in two pages
      if (interest != nullptr) wanted |= interest[last_page_of<T>(i)];
    for (int p = 0; p < count; ++p)
      if ((wanted >> p & 1) != 0) peers[p][i] = value;
  }
};

/// Stores nothing, but marks the pages that a block would write, for a dry run that finds a kernel's mapping.
template <typename T>
struct PageMarker {
  std::uint32_t* pages;       ///< a bit for each page of the region, and one for what lies outside of the part
  std::uint64_t count;        ///< elements of the region
  std::uint64_t first, last;  ///< bytes of the part that the kernel's GPU writes
  LINKWISE_HOST_DEVICE void store(std::uint64_t i, const T&) const {
    if (i >= count || i * sizeof(T) < first || (i + 1) * sizeof(T) > last)
      return mark(count * sizeof(T) / page_bytes + 1);
    mark(i * sizeof(T) / page_bytes);
    mark(last_page_of<T>(i));
  }
  LINKWISE_HOST_DEVICE void mark(std::uint64_t page) const {
    const std::uint32_t bit = 1U << (page % 32);
#ifdef __CUDA_ARCH__
    if ((pages[page / 32] & bit) == 0) atomicOr(&pages[page / 32], bit);
#else
    pages[page / 32] |= bit;
#endif
  }
};

/// The error message for a store into a page that a block's mapping does not name.
inline std::string not_mapped(std::uint32_t block, const std::string& what, std::uint64_t page) {
  return "block " + std::to_string(block) + " stores " + what + "in the chunk of 4 KiB number " + std::to_string(page) +
         ", which its mapping does not name: the chunk could leave before the store; correct the mapping, or let a dry "
         "run find it";
}

/// Wraps another `Out` on the virtual machine: throws at a store that the mapping does not name.
template <typename T, typename Out>
struct CheckedWriter {
  Out out;
  std::uint64_t count;
  const Mapping* mapping;
  std::uint32_t block;
  LINKWISE_HOST_DEVICE void store(std::uint64_t i, const T& value) const {
#ifndef __CUDA_ARCH__
    if (i >= count)
      throw ProgramError("block " + std::to_string(block) + " stores element " + std::to_string(i) +
                         " of a region that has " + std::to_string(count));
    const auto [first, last] = mapping->all();
    if (i * sizeof(T) < first || (i + 1) * sizeof(T) > last)
      throw ProgramError("block " + std::to_string(block) + " stores element " + std::to_string(i) +
                         ", outside of bytes " + std::to_string(first) + " to " + std::to_string(last) +
                         ", which its GPU was said to write");
    for (const std::uint64_t page : {i * sizeof(T) / page_bytes, last_page_of<T>(i)})
      if (!mapping->writes(block, static_cast<std::uint32_t>(page)))
        throw ProgramError(not_mapped(block, "element " + std::to_string(i) + ", ", page));
    out.store(i, value);
#endif
  }
};

}  // namespace linkwise::proactive
