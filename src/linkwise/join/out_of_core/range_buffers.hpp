// Host memory into which the GPUs write the keys that the two sides of each pair have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/join/out_of_core/matched_keys.hpp"
#include "linkwise/join/out_of_core/merge_path_partitions.hpp"

namespace linkwise {

class RangeBuffers {
 public:
  /// Allocates pinned memory for the pairs of two relations of one run each. @throws OutOfMemoryError.
  RangeBuffers(Runtime& runtime, const MergePathPartitions& pairs);

  /// The memory for the results of a pair; see RangeSearch. In an estimate, it covers only `expected` ranges.
  [[nodiscard]] MemoryView ranges(std::size_t pair, std::uint64_t expected) const;
  [[nodiscard]] MemoryView tiles(std::size_t pair) const;
  /// All of the memory.
  [[nodiscard]] std::vector<MemoryView> views() const { return {ranges_.view(), tiles_.view()}; }

  /// The keys that were found, together with those that were taken out of the pairs. `ranges_of_pair`: how many the
  /// GPUs have counted in each pair. The result refers to this memory. @throws CorruptDataError.
  [[nodiscard]] KeyBlocks keys(std::span<const std::uint64_t> ranges_of_pair) const;

 private:
  [[nodiscard]] KeyBlocks keys_of_pair(std::size_t pair) const;

  // Where the ranges and tiles of a pair are among all.
  struct Room {
    std::uint64_t first_range = 0, ranges = 0;
    std::uint64_t first_tile = 0, tiles = 0;
  };

  bool estimating_;
  const MergePathPartitions& pairs_;
  std::vector<Room> rooms_;
  Buffer ranges_, tiles_;
};

}  // namespace linkwise
