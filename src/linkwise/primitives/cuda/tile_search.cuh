// Finding sorted keys in other sorted keys, tile by tile.
#pragma once

#include "linkwise/primitives/cuda/launch.cuh"

namespace linkwise::cuda {

__host__ __device__ constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Neighbouring threads access keys `items` apart: padding avoids shared-memory bank conflicts.
__device__ constexpr int padded(int i) { return i + i / 32; }

// The first of [low, high) whose key is not less than (or, with `after`, is greater than) `key`.
template <bool after, typename At, typename Key>
__device__ inline std::uint64_t bound(const At& at, std::uint64_t low, std::uint64_t high, Key key) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (after ? at(middle) <= key : at(middle) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The same by galloping search from `low`, for results that are likely to be near.
template <bool after, typename At, typename Key>
__device__ inline std::uint64_t near_bound(const At& at, std::uint64_t low, std::uint64_t high, Key key) {
  std::uint64_t step = 1;
  while (low + step <= high && (after ? at(low + step - 1) <= key : at(low + step - 1) < key)) {
    low += step;
    step *= 2;
  }
  return bound<after>(at, low, low + step <= high ? low + step - 1 : high, key);
}

// For each tile, where on the build side its first key begins and its last key ends.
template <typename Key>
__global__ void tile_ranges_kernel(const Key* keys, std::uint64_t count, const Key* build, std::uint64_t build_count,
                                   int tile, std::uint64_t tiles, std::uint64_t* ranges) {
  const auto at = [=](std::uint64_t i) { return build[i]; };
  const std::uint64_t t = global_thread();
  if (t >= tiles) return;
  const std::uint64_t last = min(count, (t + 1) * tile) - 1;
  ranges[2 * t] = bound<false>(at, 0, build_count, keys[t * tile]);
  ranges[2 * t + 1] = bound<true>(at, 0, build_count, keys[last]);
}

template <typename Key>
void find_tile_ranges(cudaStream_t stream, const Key* keys, std::uint64_t count, const Key* build,
                      std::uint64_t build_count, int tile, std::uint64_t* ranges) {
  const std::uint64_t tiles = ceil_div(count, static_cast<std::uint64_t>(tile));
  tile_ranges_kernel<Key><<<static_cast<unsigned>(ceil_div(tiles, block_threads)), block_threads, 0, stream>>>(
      keys, count, build, build_count, tile, tiles, ranges);
}

}  // namespace linkwise::cuda
