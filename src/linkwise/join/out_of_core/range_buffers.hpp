// The host's memory into which the GPUs write the keys that the two sides of each pair have in common.
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
  /// Page-locked; for the pairs of two relations of one run each. @throws OutOfMemoryError.
  RangeBuffers(Runtime& runtime, const MergePathPartitions& pairs);

  /// Of a pair; see RangeSearch. In an estimate, with as many ranges as are expected.
  [[nodiscard]] MemoryView ranges(std::size_t pair, std::uint64_t expected) const;
  [[nodiscard]] MemoryView tiles(std::size_t pair) const;
  /// Everything.
  [[nodiscard]] std::vector<MemoryView> views() const { return {ranges_.view(), tiles_.view()}; }

  /// What was found, and the keys that were taken out of the pairs; `ranges_of_pair` is what the GPUs counted.
  /// Refers to this memory. @throws CorruptDataError.
  [[nodiscard]] KeyBlocks keys(std::span<const std::uint64_t> ranges_of_pair) const;

 private:
  [[nodiscard]] KeyBlocks keys_of_pair(std::size_t pair) const;

  // Where those of a pair are among all.
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
