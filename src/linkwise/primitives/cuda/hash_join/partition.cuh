// One pass of radix partitioning by hashes: counts the rows of each part, and moves each tile's rows to their parts.
//
// A tile is ordered by digit in shared memory, so that it is stored in runs; a block reserves the place of each run
// with the part's atomic cursor. So the rows of a part are in no particular order, which a hash join does not need.
#pragma once

#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/match_totals.cuh"
#include "linkwise/primitives/hash_join_steps.hpp"

namespace linkwise::cuda::hash {

constexpr int pass_threads = 512;  // enough for one thread per digit
static_assert(1 << most_pass_bits <= pass_threads);
constexpr unsigned count_tile = 1 << 15;

template <typename Value>
constexpr bool has_values = !std::is_same_v<Value, NoValue>;

/// Rows of a tile per thread: as many as let two blocks share a multiprocessor.
template <typename Key, typename Value>
constexpr int pass_items = sizeof(Key) == 8 && sizeof(Value) == 8 ? 8 : 16;

/// The tiles of all runs: those of run r are numbered from first[r] on.
struct Tiles {
  const std::uint32_t* first;
  unsigned rows;
};

/// A block's rows, [begin, end), all of one bucket.
struct Tile {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t bucket = 0;
};

// Launched as one block: finds the number of each run's first tile, and the number of all tiles.
__global__ void __launch_bounds__(1024) find_tiles_kernel(RawRuns runs, unsigned tile_rows, std::uint32_t* first) {
  using Scan = cub::BlockScan<std::uint32_t, 1024>;
  __shared__ typename Scan::TempStorage scan;
  std::uint32_t before = 0;
  for (std::uint32_t base = 0; base < runs.count; base += 1024) {
    const std::uint32_t run = base + threadIdx.x;
    std::uint32_t tiles = 0, at = 0, all = 0;
    if (run < runs.count)
      tiles = static_cast<std::uint32_t>((runs.end[run] - runs.begin[run] + tile_rows - 1) / tile_rows);
    Scan(scan).ExclusiveSum(tiles, at, all);
    if (run < runs.count) first[run] = before + at;
    before += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) first[runs.count] = before;
}

// Called by all threads of a block, which it synchronises. Returns an empty tile past the last one.
__device__ inline Tile tile_of_block(const RawHashPass& pass, const Tiles& tiles) {
  __shared__ Tile found;
  const RawRuns& runs = pass.runs;
  const std::uint32_t number = blockIdx.x;
  if (runs.begin == nullptr) {
    const std::uint64_t begin = std::uint64_t{number} * tiles.rows;
    return {min(begin, pass.rows), min(begin + tiles.rows, pass.rows), 0};
  }
  if (threadIdx.x < 32) {
    // Finds the last run whose first tile does not come after this one, with 32 candidates at once.
    std::uint32_t low = 0, length = runs.count;
    while (length > 1) {
      const std::uint32_t step = (length + 31) / 32, at = low + threadIdx.x * step;
      const bool is_before = threadIdx.x * step < length && tiles.first[at] <= number;
      const std::uint32_t chosen = 31 - __clz(__ballot_sync(~0u, is_before));
      low += chosen * step;
      length = min(step, length - chosen * step);
    }
    if (threadIdx.x == 0) {
      found = {};
      if (number < tiles.first[runs.count]) {
        const std::uint64_t begin = runs.begin[low] + std::uint64_t{number - tiles.first[low]} * tiles.rows;
        found = {begin, min(begin + tiles.rows, runs.end[low]), low % runs.buckets};
      }
    }
  }
  __syncthreads();
  return found;
}

template <typename Key>
__global__ void __launch_bounds__(pass_threads)
    count_digits_kernel(const RawHashPass pass, const Tiles tiles, unsigned long long* counts) {
  __shared__ unsigned counters[pass_threads];
  const Tile tile = tile_of_block(pass, tiles);
  if (tile.begin == tile.end) return;
  counters[threadIdx.x] = 0;
  __syncthreads();
  const unsigned mask = (1u << pass.bits) - 1;
  const auto* const keys = static_cast<const Key*>(pass.from.keys);
  constexpr int at_once = 8;
  for (std::uint64_t i = tile.begin + threadIdx.x; i < tile.end; i += at_once * pass_threads) {
    Key key[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j)
      if (i + j * pass_threads < tile.end) key[j] = keys[i + j * pass_threads];
#pragma unroll
    for (int j = 0; j < at_once; ++j)
      if (i + j * pass_threads < tile.end)
        atomicAdd(&counters[static_cast<unsigned>(pass.from.hash(key[j]) >> pass.shift) & mask], 1u);
  }
  __syncthreads();
  const unsigned digit = threadIdx.x;
  if (digit <= mask && counters[digit] > 0)
    atomicAdd(counts + (std::uint64_t{tile.bucket} << pass.bits | digit),
              static_cast<unsigned long long>(counters[digit]));
}

template <typename Key, typename Value>
struct PassMemory {
  static constexpr int tile = pass_threads * pass_items<Key, Value>;

  Key keys[tile];
  Value values[has_values<Value> ? tile : 1];
  unsigned counters[pass_threads], start[pass_threads];
  std::uint64_t checksum;
  std::uint64_t offset[pass_threads];  // from a row's place in the tile to that in the output, modulo 2^64
  typename cub::BlockScan<unsigned, pass_threads>::TempStorage scan;
};

/// `cursors`: where each part's next row goes. *checksum += Σ record_hash, unless null.
template <typename Key, typename Value>
__global__ void __launch_bounds__(pass_threads, 2)
    move_to_parts_kernel(const RawHashPass pass, const Tiles tiles, Key* to_keys, Value* to_values,
                         unsigned long long* cursors, unsigned long long* checksum) {
  constexpr int items = pass_items<Key, Value>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto& memory = *reinterpret_cast<PassMemory<Key, Value>*>(shared);
  const Tile tile = tile_of_block(pass, tiles);
  if (tile.begin == tile.end) return;
  const unsigned thread = threadIdx.x, mask = (1u << pass.bits) - 1;
  const auto count = static_cast<unsigned>(tile.end - tile.begin);
  const auto digit_of = [&](Key hash) { return static_cast<unsigned>(hash >> pass.shift) & mask; };
  memory.counters[thread] = 0;
  if (thread == 0) memory.checksum = 0;
  Key key[items];
  const Key* const from = static_cast<const Key*>(pass.from.keys) + tile.begin + thread;
#pragma unroll
  for (int i = 0; i < items; ++i)
    if (thread + i * pass_threads < count) key[i] = from[i * pass_threads];
  __syncthreads();
  unsigned ranks[items / 2] = {};  // two in a register
  static_assert(PassMemory<Key, Value>::tile <= 1 << 16);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    key[i] = pass.from.hash(key[i]);
    if (thread + i * pass_threads < count)
      ranks[i / 2] |= atomicAdd(&memory.counters[digit_of(key[i])], 1u) << 16 * (i % 2);
  }
  Value value[items];
  if constexpr (has_values<Value>) {
    const auto* const values = static_cast<const Value*>(pass.from.values);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const std::uint64_t row = tile.begin + thread + i * pass_threads;
      if (row < tile.end) value[i] = values == nullptr ? static_cast<Value>(pass.from.first_row + row) : values[row];
    }
  }
  __syncthreads();
  const unsigned mine = memory.counters[thread];
  unsigned start;
  cub::BlockScan<unsigned, pass_threads>(memory.scan).ExclusiveSum(mine, start);
  memory.start[thread] = start;
  if (thread <= mask && mine > 0)
    memory.offset[thread] =
        atomicAdd(cursors + (std::uint64_t{tile.bucket} << pass.bits | thread), static_cast<unsigned long long>(mine)) -
        start;
  __syncthreads();
  std::uint64_t hashes = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    if (thread + i * pass_threads < count) {
      const unsigned at = memory.start[digit_of(key[i])] + (ranks[i / 2] >> 16 * (i % 2) & 0xffff);
      memory.keys[at] = key[i];
      if constexpr (has_values<Value>) memory.values[at] = value[i];
      if (checksum != nullptr) hashes += record_hash(key[i], value[i]);
    }
  }
  if (checksum != nullptr) add_in_warp(hashes, &memory.checksum);
  __syncthreads();
  if (checksum != nullptr && thread == 0) atomicAdd(checksum, static_cast<unsigned long long>(memory.checksum));
#pragma unroll 4
  for (unsigned at = thread; at < count; at += pass_threads) {
    const Key moved = memory.keys[at];
    const std::uint64_t place = memory.offset[digit_of(moved)] + at;
    to_keys[place] = moved;
    if constexpr (has_values<Value>) to_values[place] = memory.values[at];
  }
}

}  // namespace linkwise::cuda::hash
