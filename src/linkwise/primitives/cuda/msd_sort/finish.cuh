// The last kernels: an item is read once, sorted in shared memory, and written once.
//
// Its keys go to bins by equal cuts of their range, of which there are more than keys; in its bin, each key counts
// those that come before it. An item whose bins are long is left to a second kernel, which looks at the range again
// and, if that does not help, calls a block-wide radix sort.
#pragma once

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"

namespace linkwise::cuda::msd {

constexpr unsigned long_bin = 24;  // keys, of which each looks at all

template <typename Key, typename Value, int threads = finish_threads>
class ItemSort {
  static constexpr bool has_values = !std::is_same_v<Value, NoValue>;
  static constexpr int items = (item_capacity + threads - 1) / threads;
  static constexpr int capacity = items * threads;
  // Two bins to a word. For keys alone of 32 bits, as many as usual items have possible keys: then bins are keys.
  static constexpr int words_per_thread = (sizeof(Key) == 4 && !has_values ? 9216 : 4096) / threads;
  static constexpr int max_bins = 2 * words_per_thread * threads;
  using Position = std::uint16_t;
  using Scan = cub::BlockScan<std::uint32_t, threads>;
  using BlockSort = cub::BlockRadixSort<Key, threads, items, std::conditional_t<has_values, Position, cub::NullType>>;

 public:
  struct Memory {
    union {
      struct {
        Key keys[capacity];
        Position positions[has_values ? capacity : 1];
        std::uint32_t bins[max_bins / 2 + 1];  // 16 bits each: first how many keys a bin has, then where it begins
      };
      typename BlockSort::TempStorage sort;
    };
    typename Scan::TempStorage scan;
    std::uint32_t greatest_high, greatest_low;
    unsigned long long least;
  };

  __device__ ItemSort(Memory& memory, const Columns<Key, Value>& columns) : memory_(memory), columns_(columns) {}

  /// False if bins are too long: then nothing is written.
  __device__ __forceinline__ bool sort_evenly_spread(const Item& item) {
    if (!item.is_equal) return sorted_by_bins(item, static_cast<Key>(item.low));
    move(item);
    return true;
  }
  __device__ __forceinline__ void sort_any(const Item& item) {
    if (item.is_equal) return move(item);
    const Key low = least_of(item);
    if (!sorted_by_bins(item, low)) sort_by_digits(item, low);
  }

 private:
  __device__ __forceinline__ const Key* keys_of(const Item& item) const {
    return columns_.keys_at(item.place) + item.begin;
  }
  __device__ __forceinline__ const Value* values_of(const Item& item) const {
    return columns_.values_at(item.place) + item.begin;
  }
  __device__ __forceinline__ Key* keys_to(const Item& item) const { return columns_.keys[in_result] + item.begin; }
  __device__ __forceinline__ Value* values_to(const Item& item) const {
    return columns_.values[in_result] + item.begin;
  }
  // Records of a thread are `threads` apart: how many the item has from its first on.
  __device__ __forceinline__ static int left_of(const Item& item) {
    return static_cast<int>(item.count) - static_cast<int>(threadIdx.x);
  }

  __device__ __forceinline__ void move(const Item& item) {
    if (item.place == in_result && columns_.are_codes) return;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads) {
      const Key key = keys_of(item)[i];
      keys_to(item)[i] = item.place == in_input ? key : columns_.native(key);
    }
    if (has_values && item.place != in_result)
      for (std::uint32_t i = threadIdx.x; i < item.count; i += threads) values_to(item)[i] = values_of(item)[i];
  }

  struct Bins {
    Key low;
    unsigned shift, scale;
    bool are_keys;

    __device__ __forceinline__ unsigned operator()(Key key) const {
      return scaled_digit(static_cast<std::uint32_t>(static_cast<Key>(key - low) >> shift), scale);
    }
  };

  // By the greatest key's distance from `low`, which no key is less than; of 64 bits, the upper half's and all ones
  // below it do. Clears the bins.
  __device__ __forceinline__ Bins bins_for(const Key (&key)[items], int left, Key low) {
    if (threadIdx.x == 0) memory_.greatest_high = memory_.greatest_low = 0;
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) memory_.bins[threadIdx.x + i * threads] = 0;
    std::uint32_t high_most = 0, low_most = 0;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const Key above = key[i] - low;
      if constexpr (sizeof(Key) == 8) {
        const auto upper = static_cast<std::uint32_t>(above >> 32);
        high_most = max(high_most, upper);
        low_most = upper > 0 ? ~0u : max(low_most, static_cast<std::uint32_t>(above));
      } else low_most = max(low_most, above);
    }
    __syncthreads();
    low_most = __reduce_max_sync(~0u, low_most);
    if constexpr (sizeof(Key) == 8) high_most = __reduce_max_sync(~0u, high_most);
    if (threadIdx.x % 32 == 0) {
      atomicMax(&memory_.greatest_low, low_most);
      if constexpr (sizeof(Key) == 8) atomicMax(&memory_.greatest_high, high_most);
    }
    __syncthreads();
    Bucket cut{};
    const std::uint64_t reach = std::uint64_t{memory_.greatest_high} << 32 | memory_.greatest_low;
    cut_evenly(cut, reach, max_bins);
    return {low, cut.shift, cut.scale, reach < max_bins};
  }

  // False if bins are too long; then nothing is written.
  __device__ __forceinline__ bool sorted_by_bins(const Item& item, Key low) {
    const int left = left_of(item);
    Key key[items];
    const Key* const from = keys_of(item) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (i * threads < left) key[i] = __ldcs(from + i * threads);
    const Bins bin_of = bins_for(key, left, low);
    std::uint32_t slot[items];  // bin << 16 | rank
    unsigned longest = 0;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const unsigned bin = bin_of(key[i]), upper = bin % 2 * 16;
      const unsigned rank = atomicAdd(&memory_.bins[bin / 2], 1u << upper) >> upper & 0xffff;
      longest = max(longest, rank);
      slot[i] = bin << 16 | rank;
    }
    const bool has_long = __syncthreads_or(longest >= long_bin && (has_values || !bin_of.are_keys)) != 0;
    if (has_values && has_long) return false;
    find_starts(item.count);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const unsigned place = start_of(slot[i] >> 16) + (slot[i] & 0xffff);
      memory_.keys[place] = key[i];
      if constexpr (has_values) memory_.positions[place] = static_cast<Position>(threadIdx.x + i * threads);
    }
    __syncthreads();
    if constexpr (has_values) write_records(item, bin_of);
    else {
      if (has_long && !long_bins_are_equal(item, bin_of)) return false;
      write_keys(item, bin_of);
    }
    return true;
  }

  [[nodiscard]] __device__ __forceinline__ unsigned start_of(unsigned bin) const {
    return reinterpret_cast<const std::uint16_t*>(memory_.bins)[bin];
  }

  __device__ __forceinline__ void find_starts(unsigned count) {
    std::uint32_t* const mine = memory_.bins + threadIdx.x * words_per_thread;
    std::uint32_t word[words_per_thread], sum = 0;
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) {
      word[i] = mine[i];
      sum += word[i];
    }
    std::uint32_t start = (sum & 0xffff) + (sum >> 16);
    Scan(memory_.scan).ExclusiveSum(start, start);
#pragma unroll
    for (int i = 0; i < words_per_thread; ++i) {
      const std::uint32_t second = start + (word[i] & 0xffff);
      mine[i] = start | second << 16;
      start = second + (word[i] >> 16);
    }
    if (threadIdx.x == 0) memory_.bins[max_bins / 2] = count;
    __syncthreads();
  }

  __device__ __forceinline__ bool long_bins_are_equal(const Item& item, const Bins& bin_of) {
    bool are_equal = true;
    for (int at = static_cast<int>(threadIdx.x); at < static_cast<int>(item.count); at += threads) {
      const Key key = memory_.keys[at];
      const unsigned bin = bin_of(key), begin = start_of(bin);
      if (start_of(bin + 1) - begin > long_bin) are_equal &= key == memory_.keys[begin];
    }
    return __syncthreads_and(are_equal) != 0;
  }

  __device__ __forceinline__ void write_keys(const Item& item, const Bins& bin_of) {
    Key* const to = keys_to(item);
    const int left = left_of(item);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const int at = static_cast<int>(threadIdx.x) + i * threads;
      const Key key = memory_.keys[at];
      int place = at;
      if (!bin_of.are_keys) {
        const unsigned bin = bin_of(key);
        const int begin = start_of(bin), end = start_of(bin + 1);
        if (end - begin > 1 && end - begin <= static_cast<int>(long_bin)) {
          place = begin;
          for (int j = begin; j < end; ++j) {
            const Key other = memory_.keys[j];
            place += other < key || (other == key && j < at) ? 1 : 0;
          }
        }
      }
      to[place] = columns_.native(key);
    }
  }

  __device__ __forceinline__ void write_records(const Item& item, const Bins& bin_of) {
    Key* const to = keys_to(item);
    const Value* const values = values_of(item);
    const int left = left_of(item);
    Value value[items];
    std::uint16_t place[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const int at = static_cast<int>(threadIdx.x) + i * threads;
      const Key key = memory_.keys[at];
      const Position position = memory_.positions[at];
      value[i] = values[position];
      const unsigned bin = bin_of(key);
      const int begin = start_of(bin), end = start_of(bin + 1);
      int before = begin;
      for (int j = begin; j < end; ++j) {
        const Key other = memory_.keys[j];
        before += other < key || (other == key && memory_.positions[j] < position) ? 1 : 0;
      }
      to[before] = columns_.native(key);
      place[i] = static_cast<std::uint16_t>(before);
    }
    __syncthreads();  // an item in its place: all values are read before one is written
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (i * threads < left) values_to(item)[place[i]] = value[i];
  }

  __device__ __forceinline__ Key least_of(const Item& item) {
    __syncthreads();
    if (threadIdx.x == 0) memory_.least = ~0ull;
    __syncthreads();
    unsigned long long least = ~0ull;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads)
      least = min(least, static_cast<unsigned long long>(keys_of(item)[i]));
    atomicMin(&memory_.least, least);
    __syncthreads();
    return static_cast<Key>(memory_.least);
  }

  // Whatever the keys are. The sort wants consecutive records in each thread.
  __device__ __forceinline__ void sort_by_digits(const Item& item, Key low) {
    __syncthreads();
    const Key* const from = keys_of(item);
    const int first = static_cast<int>(threadIdx.x) * items, count = static_cast<int>(item.count);
    Key key[items];
    Position position[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      key[i] = first + i < count ? static_cast<Key>(from[first + i] - low) : static_cast<Key>(~Key{0});
      position[i] = static_cast<Position>(first + i);
    }
    // One bit more than the keys have, so that what fills the thread up comes last.
    const std::uint64_t reach = std::uint64_t{memory_.greatest_high} << 32 | memory_.greatest_low;
    const int bits = min(bit_width(reach) + 1, static_cast<int>(8 * sizeof(Key)));
    const int left = left_of(item);
    if constexpr (has_values) {
      BlockSort(memory_.sort).SortBlockedToStriped(key, position, 0, bits);
      Value value[items];
#pragma unroll
      for (int i = 0; i < items; ++i)
        if (i * threads < left) value[i] = values_of(item)[position[i]];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < items; ++i)
        if (i * threads < left) values_to(item)[threadIdx.x + i * threads] = value[i];
    } else BlockSort(memory_.sort).SortBlockedToStriped(key, 0, bits);
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (i * threads < left)
        keys_to(item)[threadIdx.x + i * threads] = columns_.native(static_cast<Key>(key[i] + low));
  }

  Memory& memory_;
  const Columns<Key, Value>& columns_;
};

template <typename Key, typename Value>
__global__ void __launch_bounds__(finish_threads, finish_blocks)
    finish(const __grid_constant__ Columns<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(16) unsigned char raw[];
  using Sort = ItemSort<Key, Value>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
  const std::uint32_t items = state.counters->items;
  for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
    if (!sort.sort_evenly_spread(state.items[i]) && threadIdx.x == 0)
      state.hard_items[atomicAdd(&state.counters->hard_items, 1u)] = i;
    __syncthreads();
  }
}

template <typename Key, typename Value>
__global__ void __launch_bounds__(finish_threads, 1)
    finish_hard(const __grid_constant__ Columns<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(16) unsigned char raw[];
  using Sort = ItemSort<Key, Value>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
  const std::uint32_t items = state.counters->hard_items;
  for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
    sort.sort_any(state.items[state.hard_items[i]]);
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
