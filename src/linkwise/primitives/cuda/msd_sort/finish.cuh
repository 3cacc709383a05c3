// Items of keys without values: each is read once, sorted in shared memory, and written once.
//
// An item with a long bin is left to a second kernel, which uses the actual range of its keys and, if that does not
// help, a block-wide radix sort.
#pragma once

#include <cub/block/block_radix_sort.cuh>

#include "linkwise/primitives/cuda/msd_sort/bins.cuh"
#include "linkwise/primitives/cuda/msd_sort/run_load.cuh"

namespace linkwise::cuda::msd {

/// Records that each thread sorts, for blocks of `threads`.
template <typename Key, typename Value, int threads>
constexpr int items_each = ((item_capacity<Key, Value> + threads - 1) / threads + 1) / 2 * 2;

struct RangeMemory {
  unsigned long long least, greatest;
};

/// The actual range of `count` keys.
template <typename Key>
__device__ KeySpan range_of(RangeMemory& memory, const Key* keys, std::uint32_t count) {
  __syncthreads();
  if (threadIdx.x == 0) memory = {~0ull, 0};
  __syncthreads();
  unsigned long long least = ~0ull, greatest = 0;
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    least = min(least, static_cast<unsigned long long>(keys[i]));
    greatest = max(greatest, static_cast<unsigned long long>(keys[i]));
  }
  atomicMin(&memory.least, least);
  atomicMax(&memory.greatest, greatest);
  __syncthreads();
  return {memory.least, memory.greatest - memory.least};
}

template <typename Key, int threads, typename KeyColumns>
class ItemSort {
  static constexpr int items = items_each<Key, NoValue, threads>;
  static constexpr int bin_pairs = 10 * finish_threads / threads;
  using Bins = BinSort<Key, threads, items, bin_pairs>;
  using BlockSort = cub::BlockRadixSort<Key, threads, items>;

 public:
  struct Memory {
    RunMemory<Key, item_capacity<Key>> input;
    union {
      typename Bins::Memory bins;  // of keys minus the item's lowest
      typename BlockSort::TempStorage sort;
    };
    RangeMemory range;
  };

  __device__ ItemSort(Memory& memory, const KeyColumns& columns)
      : memory_(memory), columns_(columns), bins_(memory.bins), input_(memory.input) {}

  /// Begins to load the item's keys, for `sort_evenly_spread`.
  __device__ __forceinline__ void begin(const Item& item) {
    input_.begin(columns_.keys_at(item.place), columns_.count, item.begin, item.is_equal != 0 ? 0 : item.count);
  }

  /// Call after the item's `begin`; begins to load the next. Returns false, and writes nothing, if a bin is too long.
  __device__ __forceinline__ bool sort_evenly_spread(const Item& item, const Item& next) {
    input_.wait();
    if (item.is_equal == 0)
      return sorted_by_bins(item, input_.elements(), static_cast<Key>(item.low), item.reach, [&] { begin(next); });
    __syncthreads();
    begin(next);
    move(item);
    return true;
  }
  __device__ __forceinline__ void sort_any(const Item& item) {
    if (item.is_equal != 0) return move(item);
    const KeySpan keys = range_of(memory_.range, keys_of(item), item.count);
    const auto low = static_cast<Key>(keys.low);
    if (!sorted_by_bins(item, keys_of(item), low, keys.reach, [] {})) sort_by_digits(item, low, keys.reach);
  }
  __device__ __forceinline__ void end() { input_.end(); }

 private:
  __device__ __forceinline__ const Key* keys_of(const Item& item) const {
    return columns_.keys_at(item.place) + item.begin;
  }
  __device__ __forceinline__ auto* keys_to(const Item& item) const { return columns_.result() + item.begin; }

  __device__ __forceinline__ void move(const Item& item) {
    if (columns_.are_final(item.place)) return;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads)
      keys_to(item)[i] = columns_.native_at(item.place, keys_of(item)[i]);
  }

  // `keys`: the item's, in shared or global memory. Returns false if a bin is too long; then nothing is written.
  template <typename WhenRead>
  __device__ __forceinline__ bool sorted_by_bins(const Item& item, const Key* keys, Key low, std::uint64_t reach,
                                                 const WhenRead& when_read) {
    const auto above_at = [=](unsigned position) { return static_cast<Key>(keys[position] - low); };
    if (!bins_.sort(item.count, reach, above_at, when_read)) return false;
    write(item, low);
    return true;
  }

  // Starts at a multiple of 32 keys, so that a warp writes whole cache lines.
  __device__ __forceinline__ void write(const Item& item, Key low) {
    const int phase = static_cast<int>(item.begin % 32), count = static_cast<int>(item.count);
    auto* const to = keys_to(item);
#pragma unroll
    for (int i = 0; i <= items; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * threads - phase;
      if (at >= 0 && at < count) to[at] = columns_.native(static_cast<Key>(bins_.numbers()[at] + low));
    }
  }

  // Block-wide radix sort, for any keys. It takes consecutive keys in each thread.
  __device__ __forceinline__ void sort_by_digits(const Item& item, Key low, std::uint64_t reach) {
    __syncthreads();
    const Key* const from = keys_of(item);
    const int first = static_cast<int>(threadIdx.x) * items, count = static_cast<int>(item.count);
    Key key[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      key[i] = first + i < count ? static_cast<Key>(from[first + i] - low) : static_cast<Key>(~Key{0});
    }
    // One bit more than the keys have, so that the padding sorts last.
    const int bits = min(bit_width(reach) + 1, static_cast<int>(8 * sizeof(Key)));
    BlockSort(memory_.sort).SortBlockedToStriped(key, 0, bits);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const std::uint32_t at = threadIdx.x + i * threads;
      if (at < item.count) keys_to(item)[at] = columns_.native(static_cast<Key>(key[i] + low));
    }
  }

  Memory& memory_;
  const KeyColumns& columns_;
  Bins bins_;
  RunLoad<Key, item_capacity<Key>> input_;
};

}  // namespace linkwise::cuda::msd
