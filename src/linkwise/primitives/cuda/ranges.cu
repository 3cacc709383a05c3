// Finds the keys that both sides of a join have, as ranges of their rows (join25 §3.3.3).
//
// Each block handles a tile of the shorter side. join25 does three binary searches in global memory for each key;
// this variant is available for comparison. Otherwise the range of the longer side that a tile can match is found
// first, and each key is searched in it, near the one before; in shared memory if the range fits. In both variants, a
// block reserves the places of all its ranges at once and writes them contiguously, 16 bytes per thread, where
// join25's threads each increment an atomic counter: over the link to the host, where ranges usually go, scattered
// stores would cost a packet each. A tile's ranges stay together, so reading them tile by tile restores the key
// order.
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/match_totals.cuh"
#include "linkwise/primitives/cuda/tile_search.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

constexpr int tile = keys_of_range_tile;
constexpr int items = tile / block_threads;
constexpr int staged_others = tile + tile / 2;  // keys of the other side that fit into shared memory

using Scan = cub::BlockScan<int, block_threads>;

template <typename Key>
__global__ void __launch_bounds__(block_threads)
    find_ranges_kernel(const RawRangeSearch search, const std::uint64_t* bounds, RangeTotals* totals) {
  __shared__ Key tile_keys[padded(tile) + 1];
  __shared__ Key other_keys[padded(staged_others) + 1];
  __shared__ KeyRange of_tile[tile];
  __shared__ typename Scan::TempStorage scan;
  __shared__ std::uint64_t matches_of_block;
  __shared__ std::uint32_t place;
  const std::uint64_t begin = blockIdx.x * std::uint64_t{tile};
  const int present = static_cast<int>(min(search.leading_count - begin, std::uint64_t{tile}));
  const bool each_key = search.each_key;
  const std::uint64_t low = each_key ? 0 : bounds[2 * blockIdx.x];
  const std::uint64_t length = each_key ? search.other_count : bounds[2 * blockIdx.x + 1] - low;
  const Key* keys = static_cast<const Key*>(search.leading);
  const Key* other = static_cast<const Key*>(search.other) + low;
  for (int i = threadIdx.x; i < present; i += block_threads) tile_keys[padded(i)] = keys[begin + i];
  const bool is_staged = !each_key && length <= staged_others;
  if (is_staged)
    for (int i = threadIdx.x; i < static_cast<int>(length); i += block_threads) other_keys[padded(i)] = other[i];
  if (threadIdx.x == 0) matches_of_block = 0;
  __syncthreads();

  KeyRange found[items];
  unsigned which = 0;  // bit j: whether the thread's key j was found
  std::uint64_t matches = 0;
  const auto walk = [&](const auto& at) {
    std::uint64_t upper = 0;
    bool is_near = false;
#pragma unroll
    for (int j = 0; j < items; ++j) {
      const int i = static_cast<int>(threadIdx.x) * items + j;
      if (i >= present) break;
      const Key key = tile_keys[padded(i)];
      const bool is_first = i > 0 ? tile_keys[padded(i - 1)] != key : begin == 0 || keys[begin - 1] != key;
      if (!is_first) continue;
      const std::uint64_t lower =
          is_near ? near_bound<false>(at, upper, length, key) : bound<false>(at, 0, length, key);
      upper = each_key ? bound<true>(at, lower, length, key) : near_bound<true>(at, lower, length, key);
      is_near = true;
      if (upper == lower) continue;
      const std::uint64_t row = begin + i;
      const auto own = [=](std::uint64_t k) { return keys[k]; };
      const std::uint64_t end = each_key ? bound<true>(own, row + 1, search.leading_count, key)
                                         : near_bound<true>(own, row + 1, search.leading_count, key);
      found[j] = {static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(end),
                  static_cast<std::uint32_t>(low + lower), static_cast<std::uint32_t>(low + upper)};
      which |= 1u << j;
      matches += (end - row) * (upper - lower);
    }
  };
  if (is_staged) walk([&](std::uint64_t i) { return other_keys[padded(static_cast<int>(i))]; });
  else walk([&](std::uint64_t i) { return other[i]; });

  int before = 0, in_all = 0;
  Scan(scan).ExclusiveSum(__popc(which), before, in_all);
#pragma unroll
  for (int j = 0; j < items; ++j)
    if ((which >> j & 1) != 0) of_tile[before++] = search.left_leads ? found[j] : swapped(found[j]);
  add_in_warp(matches, &matches_of_block);
  if (threadIdx.x == 0) {
    place = in_all == 0 ? 0 : static_cast<std::uint32_t>(atomicAdd(counter(&totals->ranges), in_all));
    search.tiles[blockIdx.x] = {place, static_cast<std::uint32_t>(in_all)};
  }
  __syncthreads();
  if (threadIdx.x == 0 && matches_of_block != 0) atomicAdd(counter(&totals->matches), matches_of_block);
  for (int i = threadIdx.x; i < in_all; i += block_threads) search.ranges[place + i] = of_tile[i];
}

}  // namespace

KernelList range_kernels() {
  return {address(tile_ranges_kernel<std::uint32_t>), address(tile_ranges_kernel<std::uint64_t>),
          address(find_ranges_kernel<std::uint32_t>), address(find_ranges_kernel<std::uint64_t>)};
}

std::uint64_t find_ranges_scratch_bytes(std::uint64_t leading_rows) { return 16 * ceil_div(leading_rows, tile) + 16; }

void find_ranges(cudaStream_t stream, const RawRangeSearch& search, void* scratch, RangeTotals* totals) {
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream), "clear the totals");
  if (search.leading_count == 0) return;
  auto* bounds = static_cast<std::uint64_t*>(scratch);
  with_key(search.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    if (!search.each_key)
      find_tile_ranges(stream, static_cast<const Key*>(search.leading), search.leading_count,
                       static_cast<const Key*>(search.other), search.other_count, tile, bounds);
    find_ranges_kernel<Key><<<static_cast<unsigned>(ceil_div(search.leading_count, tile)), block_threads, 0, stream>>>(
        search, bounds, totals);
  });
  check_launch("find ranges");
}

}  // namespace linkwise::cuda
