// Counts the keys of each span by digit, and turns the counters into prefix sums: where the keys go.
#pragma once

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"
#include "linkwise/primitives/cuda/msd_sort/run_load.cuh"

namespace linkwise::cuda::msd {

/// Several blocks per multiprocessor: some count while the others' keys are being loaded.
constexpr int count_threads = 512, count_blocks = 4;
template <typename Key>
constexpr int count_items = 64 / sizeof(Key);  // per thread, at once

template <typename Key, int threads>
struct CountMemory {
  RunMemory<Key, count_items<Key> * threads> input;
  std::uint32_t counters[most_digits];
  Bucket bucket[2];  // of this span and the next
  Key least, greatest;
};

/// Begins to load keys of one span, which may be a page in the scratch.
template <typename Load, typename KeyColumns>
__device__ __forceinline__ void begin_load_of_span(Load& input, const KeyColumns& columns, const State& state,
                                                   const Bucket& bucket, std::uint64_t first, unsigned count) {
  const auto* array = columns.keys_at(bucket.place);
  using Key = std::remove_cvref_t<decltype(*array)>;
  std::uint64_t length = columns.count;
  const std::uint64_t whole = length / tile_records<Key> * tile_records<Key>;
  if (bucket.is_paged && first >= whole) {
    array = static_cast<const Key*>(state.scratch_pages);
    first -= whole;
    length = std::uint64_t{state.pages} * tile_records<Key>;
  }
  input.begin(array, length, first, count);
}

__device__ inline std::uint32_t greatest_of_warp(std::uint32_t mine) { return __reduce_max_sync(~0u, mine); }
__device__ inline std::uint64_t greatest_of_warp(std::uint64_t mine) {
  const auto upper = static_cast<std::uint32_t>(mine >> 32), most = greatest_of_warp(upper);
  const std::uint32_t lower = greatest_of_warp(upper == most ? static_cast<std::uint32_t>(mine) : 0u);
  return std::uint64_t{most} << 32 | lower;
}

/// Counts the block's share of a level's spans by digit, and extends each bucket's key range by the span's keys.
template <typename Key, int threads, typename KeyColumns>
class SpanCount {
  using Memory = CountMemory<Key, threads>;
  static constexpr unsigned at_once = count_items<Key> * threads;
  using Word = std::conditional_t<sizeof(Key) == 8, unsigned long long, unsigned>;

 public:
  __device__ SpanCount(Memory& memory, const KeyColumns& columns, const State& state, const Cell* table)
      : memory_(memory), columns_(columns), state_(state), table_(table), input_(memory.input) {}

  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return input_.end();
    Span span = state_.spans[now][blockIdx.x];
    begin_load(span, state_.buckets[now][span.bucket], 0);
    if (threadIdx.x < bucket_words) bucket_word(0) = word_of(now, span);
    for (std::uint32_t i = blockIdx.x, slot = 0;; slot = 1 - slot) {
      i += gridDim.x;
      const Span next = i < spans ? state_.spans[now][i] : Span{};
      for (unsigned d = threadIdx.x; d < most_digits; d += threads) memory_.counters[d] = 0;
      if (threadIdx.x == 0) {
        memory_.least = static_cast<Key>(~Key{0});
        memory_.greatest = 0;
      }
      if (threadIdx.x < bucket_words) bucket_word(1 - slot) = word_of(now, next);
      __syncthreads();
      const Bucket& bucket = memory_.bucket[slot];
      const Digits<Key> digit(bucket, *state_.root, table_);
      for (unsigned first = 0; first < span.count; first += at_once) {
        input_.wait();
        if (digit.is_plain()) count(digit.plain(), bucket, span.count - first);
        else count(digit, bucket, span.count - first);
        __syncthreads();
        if (first + at_once < span.count) begin_load(span, bucket, first + at_once);
      }
      if (i < spans) begin_load(next, memory_.bucket[1 - slot], 0);
      finish(state_.buckets[now][span.bucket], bucket, span);
      if (i >= spans) break;
      __syncthreads();
      span = next;
    }
    input_.end();
  }

 private:
  __device__ __forceinline__ void begin_load(const Span& span, const Bucket& bucket, unsigned first) {
    const unsigned count = min(span.count - first, at_once);
    begin_load_of_span(input_, columns_, state_, bucket, std::uint64_t{span.begin} + first, count);
  }
  __device__ __forceinline__ std::uint32_t& bucket_word(std::uint32_t slot) {
    return reinterpret_cast<std::uint32_t*>(&memory_.bucket[slot])[threadIdx.x];
  }
  __device__ __forceinline__ std::uint32_t word_of(int now, const Span& span) const {
    return reinterpret_cast<const std::uint32_t*>(&state_.buckets[now][span.bucket])[threadIdx.x];
  }

  template <typename Digit>
  __device__ __forceinline__ void count(const Digit& digit, const Bucket& bucket, std::uint32_t count) {
    constexpr int keys_at_once = 4;
    static_assert(count_items<Key> % keys_at_once == 0);
    const Key* const keys = input_.elements() + threadIdx.x;
    const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
    Key least = static_cast<Key>(~Key{0}), greatest = 0;
#pragma unroll 1
    for (int i = 0; i < count_items<Key>; i += keys_at_once) {
      Key key[keys_at_once];
#pragma unroll
      for (int j = 0; j < keys_at_once; ++j)
        if (threads * (i + j) < left) key[j] = keys[threads * (i + j)];
      columns_.encode(key, bucket.place);
#pragma unroll
      for (int j = 0; j < keys_at_once; ++j) {
        if (threads * (i + j) >= left) continue;
        least = min(least, key[j]);
        greatest = max(greatest, key[j]);
        atomicAdd(&memory_.counters[digit(key[j])], 1u);
      }
    }
    least = static_cast<Key>(~greatest_of_warp(static_cast<Key>(~least)));
    greatest = greatest_of_warp(greatest);
    if (threadIdx.x % 32 != 0) return;
    atomicMin(reinterpret_cast<Word*>(&memory_.least), static_cast<Word>(least));
    atomicMax(reinterpret_cast<Word*>(&memory_.greatest), static_cast<Word>(greatest));
  }

  __device__ __forceinline__ void finish(Bucket& shared, const Bucket& bucket, const Span& span) {
    for (unsigned d = threadIdx.x; d < bucket.digits; d += threads)
      state_.entries[span.entry + d * bucket.spans] = memory_.counters[d];
    if (threadIdx.x != 0) return;
    // Other blocks update the bounds concurrently: volatile, to read each in one piece.
    const auto now = [](const std::uint64_t& bound) { return *static_cast<const volatile std::uint64_t*>(&bound); };
    if (memory_.least < now(shared.least))
      atomicMin(reinterpret_cast<unsigned long long*>(&shared.least), static_cast<unsigned long long>(memory_.least));
    if (memory_.greatest > now(shared.greatest))
      atomicMax(reinterpret_cast<unsigned long long*>(&shared.greatest),
                static_cast<unsigned long long>(memory_.greatest));
  }

  Memory& memory_;
  const KeyColumns& columns_;
  const State& state_;
  const Cell* table_;
  RunLoad<Key, count_items<Key> * threads> input_;
};

using LevelScan = cub::BlockScan<std::uint32_t, level_threads, cub::BLOCK_SCAN_WARP_SCANS>;
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
  // At multiples of four, which are loaded at once.
  const auto cut = [&](std::uint64_t block) { return static_cast<std::uint32_t>(block * entries / gridDim.x) & ~3u; };
  return {cut(blockIdx.x), blockIdx.x + 1 == gridDim.x ? entries : cut(blockIdx.x + 1)};
}

/// Each block sums up its part of the counters …
__device__ inline void sum_entries(OffsetMemory& memory, std::uint32_t entries, const State& state) {
  const EntryRange range = entries_of_block(entries);
  std::uint32_t sum = 0;
  for (std::uint32_t i = range.begin + threadIdx.x; i < range.end; i += level_threads) sum += state.entries[i];
  sum = LevelReduce(memory.reduce).Sum(sum);
  if (threadIdx.x == 0) state.range_sums[blockIdx.x] = sum;
  // Counters are read by vectors, and each with the next: what follows the last is read as well, but not used.
  if (blockIdx.x == 0 && threadIdx.x < room_after_entries) state.entries[entries + threadIdx.x] = 0;
}

/// … and then replaces each counter by the sum of those before it.
__device__ inline void scan_entries(OffsetMemory& memory, std::uint32_t entries, const State& state) {
  constexpr int items = 4;
  const EntryRange range = entries_of_block(entries);
  const auto load = [&](std::uint32_t first, std::uint32_t (&value)[items]) {
    const uint4 loaded = first < range.end ? *reinterpret_cast<const uint4*>(state.entries + first) : uint4{};
    const std::uint32_t each[items] = {loaded.x, loaded.y, loaded.z, loaded.w};
    for (int i = 0; i < items; ++i) value[i] = first + i < range.end ? each[i] : 0;
  };
  std::uint32_t sum = 0, next[items];
  load(range.begin + threadIdx.x * items, next);
  for (std::uint32_t i = threadIdx.x; i < blockIdx.x; i += level_threads) sum += state.range_sums[i];
  sum = LevelReduce(memory.reduce).Sum(sum);
  if (threadIdx.x == 0) memory.base = sum;
  __syncthreads();
  std::uint32_t base = memory.base;
  for (std::uint32_t begin = range.begin; begin < range.end; begin += level_threads * items) {
    std::uint32_t value[items], total;
    const std::uint32_t first = begin + threadIdx.x * items;
    for (int i = 0; i < items; ++i) value[i] = next[i];
    load(first + level_threads * items, next);
    LevelScan(memory.scan).ExclusiveSum(value, value, total);
    for (int i = 0; i < items; ++i)
      if (first + i < range.end) state.entries[first + i] = base + value[i];
    base += total;
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
