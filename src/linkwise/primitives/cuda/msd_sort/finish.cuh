// The last kernels: an item is read once, sorted in shared memory, and written once.
//
// An item's keys go to bins of equal width, of which there are more than keys. Then each key is less than the length
// of its bin away from its place: a few rounds of odd-even transposition, in registers, bring it there. An item with
// a long bin is left to a second kernel, which uses the actual range of its keys and, if that does not help, a
// block-wide radix sort.
#pragma once

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"
#include "linkwise/primitives/cuda/msd_sort/run_load.cuh"

namespace linkwise::cuda::msd {

constexpr unsigned longest_bin = 16;  // keys: most rounds that pay off, and half of a warp, which merges borders

template <typename Key, int threads = finish_threads>
class ItemSort {
  static constexpr int items = ((item_capacity<Key> + threads - 1) / threads + 1) / 2 * 2;
  static constexpr int capacity = items * threads;
  static constexpr int words_per_thread = 10 * finish_threads / threads;  // of two bins each
  static constexpr int max_bins = 2 * words_per_thread * threads;
  using Scan = cub::BlockScan<std::uint32_t, threads>;
  using BlockSort = cub::BlockRadixSort<Key, threads, items>;

 public:
  struct Memory {
    RunMemory<Key, item_capacity<Key>> input;
    union {
      struct {
        alignas(16) Key keys[capacity];  // minus the item's lowest
        // 16 bits each: first how many keys a bin has, then where they begin.
        alignas(16) std::uint32_t bins[max_bins / 2];
      };
      typename BlockSort::TempStorage sort;
    };
    typename Scan::TempStorage scan;
    std::uint32_t longest;
    unsigned long long least, greatest;
  };

  __device__ ItemSort(Memory& memory, const Columns<Key>& columns)
      : memory_(memory), columns_(columns), input_(memory.input) {}

  /// Begins to load the item's keys, for `sort_evenly_spread`.
  __device__ __forceinline__ void begin(const Item& item) {
    input_.begin(columns_.keys_at(item.place), columns_.count, item.begin, item.is_equal != 0 ? 0 : item.count);
  }

  /// Call after the item's `begin`; begins to load the next. Returns false, and writes nothing, if a bin is too long.
  __device__ __forceinline__ bool sort_evenly_spread(const Item& item, const Item& next) {
    input_.wait();
    if (item.is_equal == 0)
      return sorted_by_bins(item, input_.elements(), static_cast<Key>(item.low), item.reach, &next);
    __syncthreads();
    begin(next);
    move(item);
    return true;
  }
  __device__ __forceinline__ void sort_any(const Item& item) {
    if (item.is_equal != 0) return move(item);
    const KeySpan keys = span_of(item);
    const auto low = static_cast<Key>(keys.low);
    if (!sorted_by_bins(item, keys_of(item), low, keys.reach, nullptr)) sort_by_digits(item, low, keys.reach);
  }
  __device__ __forceinline__ void end() { input_.end(); }

 private:
  __device__ __forceinline__ const Key* keys_of(const Item& item) const {
    return columns_.keys_at(item.place) + item.begin;
  }
  __device__ __forceinline__ Key* keys_to(const Item& item) const { return columns_.keys[in_result] + item.begin; }
  // The number of keys from the thread's first one to the item's end; a thread's keys are `threads` apart.
  __device__ __forceinline__ static int left_of(const Item& item) {
    return static_cast<int>(item.count) - static_cast<int>(threadIdx.x);
  }

  __device__ __forceinline__ void move(const Item& item) {
    if (item.place == in_result && columns_.are_codes) return;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads) {
      const Key key = keys_of(item)[i];
      keys_to(item)[i] = item.place == in_input ? key : columns_.native(key);
    }
  }

  struct Bins {
    unsigned shift, scale;
    bool are_keys;

    __device__ __forceinline__ unsigned operator()(Key above) const {
      return scaled_digit(static_cast<std::uint32_t>(above >> shift), scale);
    }
  };

  // Like `cut_evenly`, but with a slightly smaller scale, which needs no 64-bit division.
  __device__ __forceinline__ static Bins bins_for(std::uint64_t reach) {
    if (reach < max_bins) return {0, 1u << 31, true};
    const auto shift = static_cast<unsigned>(max(bit_width(reach) - scaled_bits, 0));
    const auto distances = static_cast<float>(static_cast<std::uint32_t>(reach >> shift) + 1);
    constexpr float doubled = 0.999999F * max_bins * static_cast<float>(1u << 31);
    return {shift, static_cast<std::uint32_t>(__fdividef(doubled, distances)), false};
  }

  // `keys`: the item's, in shared or global memory. Returns false if a bin is too long; then nothing is written.
  __device__ __forceinline__ bool sorted_by_bins(const Item& item, const Key* keys, Key low, std::uint64_t reach,
                                                 const Item* next) {
    const int left = left_of(item);
    if (threadIdx.x == 0) memory_.longest = 0;
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) memory_.bins[threadIdx.x + i * threads] = 0;
    __syncthreads();
    const Bins bin_of = bins_for(reach);
    const auto above_at = [&](int i) { return static_cast<Key>(keys[threadIdx.x + i * threads] - low); };
    std::uint32_t rank[items / 2];  // two of 16 bits each
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const unsigned bin = bin_of(above_at(i)), upper = bin % 2 * 16;
      const std::uint32_t found = atomicAdd(&memory_.bins[bin / 2], 1u << upper) >> upper;
      rank[i / 2] = i % 2 == 0 ? found : __byte_perm(rank[i / 2], found, 0x5410);
    }
    __syncthreads();
    find_starts();
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) {
        memory_.keys[threadIdx.x + i * threads] = static_cast<Key>(~Key{0});
        continue;
      }
      const Key above = above_at(i);
      memory_.keys[start_of(bin_of(above)) + (i % 2 == 0 ? rank[i / 2] & 0xffff : rank[i / 2] >> 16)] = above;
    }
    __syncthreads();
    if (next != nullptr) begin(*next);
    if (!bin_of.are_keys) {
      const unsigned longest = memory_.longest;
      if (longest > longest_bin && !long_bins_are_equal(item, bin_of)) return false;
      order_bins(min(longest, longest_bin));
    }
    write(item, low);
    return true;
  }

  // Replaces the bins' counts by where the bins begin: exclusive prefix sums.
  __device__ __forceinline__ void find_starts() {
    std::uint32_t* const mine = memory_.bins + threadIdx.x * words_per_thread;
    std::uint32_t word[words_per_thread], sum = 0, most = 0;
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) word[i] = mine[i];
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) {
      sum += word[i];
      most = __vmaxu2(most, word[i]);
    }
    most = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
    if (threadIdx.x % 32 == 0) atomicMax(&memory_.longest, most);
    std::uint32_t start = (sum & 0xffff) + (sum >> 16);
    Scan(memory_.scan).ExclusiveSum(start, start);
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) {
      const std::uint32_t second = start + (word[i] & 0xffff);
      const std::uint32_t starts = start | second << 16;
      start = second + (word[i] >> 16);
      word[i] = starts;
    }
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) mine[i] = word[i];
    __syncthreads();
  }

  [[nodiscard]] __device__ __forceinline__ unsigned start_of(unsigned bin) const {
    return reinterpret_cast<const std::uint16_t*>(memory_.bins)[bin];
  }

  __device__ __forceinline__ bool long_bins_are_equal(const Item& item, const Bins& bin_of) {
    bool are_equal = true;
    for (int at = static_cast<int>(threadIdx.x); at < static_cast<int>(item.count); at += threads) {
      const Key above = memory_.keys[at];
      const unsigned bin = bin_of(above), begin = start_of(bin);
      const unsigned end = bin + 1 == max_bins ? item.count : start_of(bin + 1);
      if (end - begin > longest_bin) are_equal &= above == memory_.keys[begin];
    }
    return __syncthreads_and(are_equal) != 0;
  }

  __device__ __forceinline__ static void exchange(Key& first, Key& second) {
    const Key lesser = min(first, second);
    second = max(first, second);
    first = lesser;
  }

  // Each thread takes a strip of consecutive keys. The rounds stay within a warp's keys; then the sorted keys before
  // and after each border between warps are merged.
  __device__ __forceinline__ void order_bins(unsigned longest) {
    if (longest < 2) return;
    struct alignas(items * sizeof(Key) % 16 == 0 ? 16 : 8) Strip {
      Key key[items];
    };
    constexpr int last = items - 1;
    const unsigned lane = threadIdx.x % 32;
    Strip strip = reinterpret_cast<const Strip*>(memory_.keys)[threadIdx.x];
    for (unsigned round = 0; round < longest; round += 2) {
#pragma unroll
      for (int i = 0; i < last; i += 2) exchange(strip.key[i], strip.key[i + 1]);
      const Key before = __shfl_up_sync(~0u, strip.key[last], 1), after = __shfl_down_sync(~0u, strip.key[0], 1);
#pragma unroll
      for (int i = 1; i < last; i += 2) exchange(strip.key[i], strip.key[i + 1]);
      if (lane > 0) strip.key[0] = max(strip.key[0], before);
      if (lane < 31) strip.key[last] = min(strip.key[last], after);
    }
    reinterpret_cast<Strip*>(memory_.keys)[threadIdx.x] = strip;
    __syncthreads();
    if (threadIdx.x < threads - 32) {
      Key* const window = memory_.keys + (threadIdx.x / 32 + 1) * 32 * items - longest_bin;
      Key key = window[lane < longest_bin ? lane : 31 + longest_bin - lane];
#pragma unroll
      for (unsigned distance = 16; distance > 0; distance /= 2) {
        const Key other = __shfl_xor_sync(~0u, key, distance);
        key = (lane & distance) != 0 ? max(key, other) : min(key, other);
      }
      __syncwarp();
      window[lane] = key;
    }
    __syncthreads();
  }

  // Starts at a multiple of 32 keys, so that a warp writes whole cache lines.
  __device__ __forceinline__ void write(const Item& item, Key low) {
    const int phase = static_cast<int>(item.begin % 32), count = static_cast<int>(item.count);
    Key* const to = keys_to(item);
#pragma unroll
    for (int i = 0; i <= items; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * threads - phase;
      if (at >= 0 && at < count) to[at] = columns_.native(static_cast<Key>(memory_.keys[at] + low));
    }
  }

  // The actual range of the item's keys.
  __device__ __forceinline__ KeySpan span_of(const Item& item) {
    __syncthreads();
    if (threadIdx.x == 0) {
      memory_.least = ~0ull;
      memory_.greatest = 0;
    }
    __syncthreads();
    unsigned long long least = ~0ull, greatest = 0;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads) {
      least = min(least, static_cast<unsigned long long>(keys_of(item)[i]));
      greatest = max(greatest, static_cast<unsigned long long>(keys_of(item)[i]));
    }
    atomicMin(&memory_.least, least);
    atomicMax(&memory_.greatest, greatest);
    __syncthreads();
    return {memory_.least, memory_.greatest - memory_.least};
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
    const int left = left_of(item);
    BlockSort(memory_.sort).SortBlockedToStriped(key, 0, bits);
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (i * threads < left)
        keys_to(item)[threadIdx.x + i * threads] = columns_.native(static_cast<Key>(key[i] + low));
  }

  Memory& memory_;
  const Columns<Key>& columns_;
  RunLoad<Key, item_capacity<Key>> input_;
};

template <typename Key>
__global__ void __launch_bounds__(finish_threads, finish_blocks)
    finish(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  using Sort = ItemSort<Key>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
  const std::uint32_t items = state.counters->items;
  const auto item_at = [&](std::uint32_t i) { return i < items ? state.items[i] : Item{}; };
  std::uint32_t i = blockIdx.x, next_i = i + gridDim.x;
  Item item = item_at(i), next = item_at(next_i);
  sort.begin(item);
  __syncthreads();
  while (i < items) {
    const std::uint32_t later_i = next_i + gridDim.x;
    const Item later = item_at(later_i);
    if (!sort.sort_evenly_spread(item, next) && threadIdx.x == 0)
      state.hard_items[atomicAdd(&state.counters->hard_items, 1u)] = i;
    __syncthreads();
    item = next;
    next = later;
    i = next_i;
    next_i = later_i;
  }
  sort.end();
}

template <typename Key>
__global__ void __launch_bounds__(finish_threads, 1)
    finish_hard(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  using Sort = ItemSort<Key>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
  const std::uint32_t items = state.counters->hard_items;
  for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
    sort.sort_any(state.items[state.hard_items[i]]);
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
