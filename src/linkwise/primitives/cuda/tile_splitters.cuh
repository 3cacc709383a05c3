// Which destination a record of a tile belongs to.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise::cuda {

// Splitters as one tile sees them, in shared memory. A splitter whose position precedes the tile is at or before all
// records of its key in the tile, one whose position follows the tile is at or before none of them. So positions can
// be dropped: a record's destination is the number of keys in `least` that do not exceed its own. Only a tile that
// contains a splitter's position compares positions.
template <typename Key>
struct TileSplitters {
  static constexpr Key greatest = static_cast<Key>(~Key{0});
  Key least[max_destinations];  // padded with the greatest key
  std::uint64_t position[max_destinations];
  int count;
  bool by_position;

  /// Called by all threads of the block, which the caller synchronises afterwards.
  __device__ void load(const Splitters& from, std::uint64_t tile_begin, std::uint64_t tile_end) {
    if (threadIdx.x == 0) {
      count = from.count;
      by_position = false;
    }
    __syncthreads();
    bool inside = false;
    for (int s = threadIdx.x; s < from.count; s += blockDim.x)
      inside |=
          from.position[s] > tile_begin && (from.position[s] < tile_end || static_cast<Key>(from.key[s]) == greatest);
    if (inside) by_position = true;
    __syncthreads();
    for (int s = threadIdx.x; s < max_destinations; s += blockDim.x) {
      const Key key = s < from.count ? static_cast<Key>(from.key[s]) : greatest;
      const bool takes_none = s < from.count && !by_position && from.position[s] > tile_begin;
      least[s] = static_cast<Key>(key + (takes_none ? 1 : 0));
      position[s] = s < from.count ? from.position[s] : 0;
    }
  }

  /// The destination of a record, among 2^levels at most.
  template <int levels>
  __device__ int destination(Key key, std::uint64_t at) const {
    int below = 0;
#pragma unroll
    for (int step = 1 << (levels - 1); step > 0; step /= 2)
      if (least[below + step - 1] <= key) below += step;
    below = min(below, count);
    if (!by_position || below == 0 || least[below - 1] != key) return below;
    int low = 0, high = below;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (least[middle] < key || position[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};

constexpr int few_levels = 3, many_levels = 6;  // of the binary search, for up to 8 destinations or for all
static_assert(max_destinations == 1 << many_levels);

}  // namespace linkwise::cuda
