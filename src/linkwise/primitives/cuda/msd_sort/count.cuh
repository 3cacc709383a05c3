// Counting: how many records of each span have each digit, and where they go.
#pragma once

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"

namespace linkwise::cuda::msd {

template <typename Key>
struct CountMemory {
  std::uint32_t counters[most_digits];
  Bucket bucket;
  Key least, greatest;
  unsigned long long checksum;
};

/// The block's part of a level's spans: each is counted by digits, and its keys are added to the bucket's range. Half a
/// span's keys are on their way while the other half is counted.
template <int items, typename Key, typename Columns>
class SpanCount {
  static constexpr int half = items / 2;
  using Word = std::conditional_t<sizeof(Key) == 8, unsigned long long, unsigned>;

 public:
  __device__ SpanCount(CountMemory<Key>& memory, const Columns& columns, const State& state, const std::uint32_t* table)
      : memory_(memory), columns_(columns), state_(state), table_(table) {}

  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return;
    if (threadIdx.x == 0) memory_.checksum = 0;
    Span span = state_.spans[now][blockIdx.x];
    const Key* keys = keys_of(now, span);
    Key first[half], second[half];
    fetch(keys, span.count, 0, first);
    for (std::uint32_t i = blockIdx.x;;) {
      fetch(keys, span.count, half, second);
      Bucket& bucket = state_.buckets[now][span.bucket];
      for (unsigned d = threadIdx.x; d < most_digits; d += level_threads) memory_.counters[d] = 0;
      if (threadIdx.x < bucket_words)
        reinterpret_cast<std::uint32_t*>(&memory_.bucket)[threadIdx.x] =
            reinterpret_cast<const std::uint32_t*>(&bucket)[threadIdx.x];
      if (threadIdx.x == 0) {
        memory_.least = static_cast<Key>(~Key{0});
        memory_.greatest = 0;
      }
      __syncthreads();
      const Digits<Key> digit(memory_.bucket, *state_.root, table_);
      least_ = static_cast<Key>(~Key{0});
      greatest_ = 0;
      count(digit, span.count, 0, first);
      i += gridDim.x;
      const Span counted = span;
      if (i < spans) {
        span = state_.spans[now][i];
        keys = keys_of(now, span);
        fetch(keys, span.count, 0, first);
      }
      count(digit, counted.count, half, second);
      finish(bucket, counted);
      if (i >= spans) break;
    }
    if (threadIdx.x == 0 && memory_.checksum != 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(columns_.checksum), memory_.checksum);
  }

 private:
  __device__ __forceinline__ const Key* keys_of(int now, const Span& span) const {
    return columns_.keys_at(state_.buckets[now][span.bucket].place) + span.begin;
  }
  __device__ __forceinline__ static void fetch(const Key* keys, std::uint32_t count, int from, Key (&key)[half]) {
    const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < half; ++i)
      if (level_threads * (from + i) < left) key[i] = __ldcs(keys + threadIdx.x + level_threads * (from + i));
  }

  __device__ __forceinline__ void count(const Digits<Key>& digit, std::uint32_t count, int from, Key (&key)[half]) {
    const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
    // All keys are in the first bucket, which is counted once.
    if (columns_.checksum != nullptr && memory_.bucket.is_root) add_hashes(key, left - level_threads * from);
    columns_.encode(key, memory_.bucket.place);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      if (level_threads * (from + i) >= left) continue;
      least_ = min(least_, key[i]);
      greatest_ = max(greatest_, key[i]);
      atomicAdd(&memory_.counters[digit(key[i])], 1u);
    }
  }

  __device__ __forceinline__ void add_hashes(const Key (&key)[half], int left) {
    std::uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < half; ++i)
      if (level_threads * i < left) sum += record_hash(key[i], NoValue{});
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (threadIdx.x % 32 == 0) atomicAdd(&memory_.checksum, static_cast<unsigned long long>(sum));
  }

  __device__ __forceinline__ void finish(Bucket& bucket, const Span& span) {
    for (int i = 16; i > 0; i /= 2) {
      least_ = min(least_, __shfl_xor_sync(~0u, least_, i));
      greatest_ = max(greatest_, __shfl_xor_sync(~0u, greatest_, i));
    }
    if (threadIdx.x % 32 == 0) {
      atomicMin(reinterpret_cast<Word*>(&memory_.least), static_cast<Word>(least_));
      atomicMax(reinterpret_cast<Word*>(&memory_.greatest), static_cast<Word>(greatest_));
    }
    __syncthreads();
    for (unsigned d = threadIdx.x; d < memory_.bucket.digits; d += level_threads)
      state_.entries[span.entry + d * memory_.bucket.spans] = memory_.counters[d];
    if (threadIdx.x == 0) {
      if (memory_.least < memory_.bucket.least)
        atomicMin(reinterpret_cast<unsigned long long*>(&bucket.least), static_cast<unsigned long long>(memory_.least));
      if (memory_.greatest > memory_.bucket.greatest)
        atomicMax(reinterpret_cast<unsigned long long*>(&bucket.greatest),
                  static_cast<unsigned long long>(memory_.greatest));
    }
    __syncthreads();
  }

  CountMemory<Key>& memory_;
  const Columns& columns_;
  const State& state_;
  const std::uint32_t* table_;
  Key least_, greatest_;
};

using LevelScan = cub::BlockScan<std::uint32_t, level_threads>;
using LevelReduce = cub::BlockReduce<std::uint32_t, level_threads>;
struct OffsetMemory {
  union {
    typename LevelScan::TempStorage scan;
    typename LevelReduce::TempStorage reduce;
  };
  std::uint32_t base;
};

struct EntryRange {
  std::uint32_t begin, end;
};
__device__ inline EntryRange entries_of_block(std::uint32_t entries) {
  const auto cut = [&](std::uint64_t block) { return static_cast<std::uint32_t>(block * entries / gridDim.x); };
  return {cut(blockIdx.x), cut(blockIdx.x + 1)};
}

/// Each block sums up its part of the counters …
__device__ inline void sum_entries(OffsetMemory& memory, std::uint32_t entries, const State& state) {
  const EntryRange range = entries_of_block(entries);
  std::uint32_t sum = 0;
  for (std::uint32_t i = range.begin + threadIdx.x; i < range.end; i += level_threads) sum += state.entries[i];
  sum = LevelReduce(memory.reduce).Sum(sum);
  if (threadIdx.x == 0) state.range_sums[blockIdx.x] = sum;
}

/// … and then replaces each counter by the sum of those before it.
__device__ inline void scan_entries(OffsetMemory& memory, std::uint32_t entries, const State& state) {
  constexpr int items = 4;
  const EntryRange range = entries_of_block(entries);
  std::uint32_t sum = 0;
  for (std::uint32_t i = threadIdx.x; i < blockIdx.x; i += level_threads) sum += state.range_sums[i];
  sum = LevelReduce(memory.reduce).Sum(sum);
  if (threadIdx.x == 0) memory.base = sum;
  __syncthreads();
  std::uint32_t base = memory.base;
  for (std::uint32_t begin = range.begin; begin < range.end; begin += level_threads * items) {
    std::uint32_t value[items], total;
    const std::uint32_t first = begin + threadIdx.x * items;
    for (int i = 0; i < items; ++i) value[i] = first + i < range.end ? state.entries[first + i] : 0;
    LevelScan(memory.scan).ExclusiveSum(value, value, total);
    for (int i = 0; i < items; ++i)
      if (first + i < range.end) state.entries[first + i] = base + value[i];
    base += total;
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
