// Partition of a span by its bucket's digits: tile after tile is ordered in shared memory and stored in runs.
//
// Keys alone need no order among equal digits: a thread learns a key's rank from the counter that it raises. With
// values the partition is stable: each warp takes consecutive records, lanes of equal digits find each other, and the
// counters of the warps are added up in their order.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/count.cuh"

namespace linkwise::cuda::msd {

constexpr int level_warps = level_threads / 32;

template <typename Key, typename Value>
struct PartitionMemory {
  static constexpr bool has_values = !std::is_same_v<Value, NoValue>;
  static constexpr int items = tile_items<Key, Value>;
  static constexpr int tile = level_threads * items;

  union {
    Key keys[tile];
    std::conditional_t<has_values, Value, Key> values[tile];
    std::uint16_t counters[has_values ? level_warps : 1][most_digits];
  };
  std::uint32_t start[most_digits];   // where each digit's next record goes in the tile
  std::uint32_t offset[most_digits];  // from a record's place in the tile to its place in the destination
  Bucket bucket[2];                   // of this span and the next
  typename LevelScan::TempStorage scan[(most_digits + level_threads - 1) / level_threads];
};

template <typename Key, typename Value>
class SpanPartition {
  using Memory = PartitionMemory<Key, Value>;
  static constexpr int items = Memory::items;
  static constexpr int digits_per_thread = (most_digits + level_threads - 1) / level_threads;

 public:
  __device__ SpanPartition(Memory& memory, const Columns<Key, Value>& columns, const State& state,
                           const std::uint32_t* table)
      : memory_(memory), columns_(columns), state_(state), table_(table) {}

  /// The block's part of a level's spans. The next one's keys are on their way while this one's are written.
  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return;
    Span span = state_.spans[now][blockIdx.x];
    if (threadIdx.x < bucket_words) bucket_word(0) = word_of(now, span);
    Span next = blockIdx.x + gridDim.x < spans ? state_.spans[now][blockIdx.x + gridDim.x] : Span{};
    __syncthreads();
    Key key[items];
    fetch(key, span, memory_.bucket[0]);
    Entries entries;
    fetch_entries(entries, span, memory_.bucket[0]);
    int slot = 0;
    for (std::uint32_t i = blockIdx.x;; slot = 1 - slot) {
      i += gridDim.x;
      const bool has_next = i < spans;
      const Bucket& bucket = memory_.bucket[slot];
      const Span later = i + gridDim.x < spans ? state_.spans[now][i + gridDim.x] : Span{};
      std::uint32_t word = 0;
      if (has_next && threadIdx.x < bucket_words) word = word_of(now, next);
      const Digits<Key> digit(bucket, *state_.root, table_);
      const bool moves = is_divided(bucket, digit);
      std::uint16_t rank[Memory::has_values ? items : 1];
      if (moves) {
        columns_.encode(key, bucket.place);
        find_starts(entries, span, bucket);
        order(digit, key, rank, span);
      }
      if (threadIdx.x < bucket_words) bucket_word(1 - slot) = word;
      __syncthreads();
      if (has_next) fetch_entries(entries, next, memory_.bucket[1 - slot]);
      if (!Memory::has_values && has_next) fetch(key, next, memory_.bucket[1 - slot]);
      if (moves) store(digit, rank, span, bucket);
      if (!has_next) return;
      if (Memory::has_values) fetch(key, next, memory_.bucket[1 - slot]);
      __syncthreads();
      span = next;
      next = later;
    }
  }

 private:
  // Where the thread's records begin in the tile, 32 from one to the next: a warp's records are consecutive. Distances
  // from there are known to the compiler, which has few registers left.
  __device__ __forceinline__ static int first_at() {
    return static_cast<int>(threadIdx.x / 32 * 32 * items + threadIdx.x % 32);
  }

  __device__ __forceinline__ std::uint32_t& bucket_word(int slot) {
    return reinterpret_cast<std::uint32_t*>(&memory_.bucket[slot])[threadIdx.x];
  }
  __device__ __forceinline__ std::uint32_t word_of(int now, const Span& span) const {
    return reinterpret_cast<const std::uint32_t*>(&state_.buckets[now][span.bucket])[threadIdx.x];
  }

  __device__ __forceinline__ void fetch(Key (&key)[items], const Span& span, const Bucket& bucket) const {
    const Key* const keys = columns_.keys_at(bucket.place) + span.begin + first_at();
    const int left = static_cast<int>(span.count) - first_at();
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (32 * i < left) key[i] = __ldcs(keys + 32 * i);
  }

  // The keys, by digits, in shared memory.
  __device__ __forceinline__ void order(const Digits<Key>& digit, const Key (&key)[items], std::uint16_t* rank,
                                        const Span& span) {
    const int left = static_cast<int>(span.count) - first_at();
    if constexpr (Memory::has_values) {
      rank_stably(digit, key, rank, left);
#pragma unroll
      for (int i = 0; i < items; ++i)
        if (32 * i < left) memory_.keys[rank[i]] = key[i];
    } else {
#pragma unroll
      for (int i = 0; i < items; ++i) {
        if (32 * i < left) memory_.keys[atomicAdd(&memory_.start[digit(key[i])], 1u)] = key[i];
        if (i % 4 == 3) asm volatile("" ::: "memory");  // few at once: the keys take most of the registers
      }
    }
  }

  __device__ __forceinline__ void store(const Digits<Key>& digit, const std::uint16_t* rank, const Span& span,
                                        const Bucket& bucket) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int striped_left = static_cast<int>(span.count) - thread;
    Key* const to = columns_.keys_at(bucket.next_place);
    if constexpr (!Memory::has_values) {
      // Few at once: the registers hold the next keys.
#pragma unroll 4
      for (int i = 0; i < items; ++i) {
        if (level_threads * i >= striped_left) break;
        const Key moved = memory_.keys[thread + level_threads * i];
        to[memory_.offset[digit(moved)] + (thread + level_threads * i)] = moved;
      }
    } else {
      std::uint32_t place[items];
#pragma unroll
      for (int i = 0; i < items; ++i) {
        if (level_threads * i >= striped_left) continue;
        const Key moved = memory_.keys[thread + level_threads * i];
        place[i] = memory_.offset[digit(moved)] + (thread + level_threads * i);
        to[place[i]] = moved;
      }
      __syncthreads();
      const Value* const values = columns_.values_at(bucket.place) + span.begin + first_at();
      const int left = static_cast<int>(span.count) - first_at();
#pragma unroll
      for (int i = 0; i < items; ++i)
        if (32 * i < left) memory_.values[rank[i]] = values[32 * i];
      __syncthreads();
      Value* const values_to = columns_.values_at(bucket.next_place);
#pragma unroll
      for (int i = 0; i < items; ++i)
        if (level_threads * i < striped_left) values_to[place[i]] = memory_.values[thread + level_threads * i];
    }
  }

  // The counters of all spans are sums already: the next one tells how many records this span has of the digit.
  // They are only loaded here, and looked at when the span's turn comes.
  struct Entries {
    std::uint32_t first, place[digits_per_thread], end[digits_per_thread];
  };
  __device__ __forceinline__ void fetch_entries(Entries& entries, const Span& span, const Bucket& bucket) const {
    entries.first = state_.entries[bucket.first_entry];
#pragma unroll
    for (int j = 0; j < digits_per_thread; ++j) {
      const unsigned digit = threadIdx.x + j * level_threads;
      if (digit >= bucket.digits) continue;
      const std::uint32_t* const entry = state_.entries + span.entry + digit * bucket.spans;
      entries.place[j] = entry[0];
      entries.end[j] = entry[1];
    }
  }

  __device__ __forceinline__ void find_starts(const Entries& entries, const Span& span, const Bucket& bucket) {
    const std::uint32_t last = bucket.first_entry + bucket.digits * bucket.spans - 1;
    std::uint32_t before = 0;
#pragma unroll
    for (int j = 0; j < digits_per_thread; ++j) {
      const unsigned digit = threadIdx.x + j * level_threads;
      const bool is_digit = digit < bucket.digits;
      const bool is_last = span.entry + digit * bucket.spans == last;
      const std::uint32_t end = is_last ? entries.first + bucket.count : entries.end[j];
      std::uint32_t start, total;
      LevelScan(memory_.scan[j]).ExclusiveSum(is_digit ? end - entries.place[j] : 0, start, total);
      start += before;
      before += total;
      if (!is_digit) continue;
      memory_.start[digit] = start;
      memory_.offset[digit] = entries.place[j] - entries.first + bucket.begin - start;
    }
    __syncthreads();
  }

  // Places in the tile, in the order of the records within each digit.
  __device__ __forceinline__ void rank_stably(const Digits<Key>& digit_of, const Key (&key)[items], std::uint16_t* rank,
                                              int left) {
    auto* const words = reinterpret_cast<std::uint32_t*>(&memory_.counters[0][0]);
    for (int i = threadIdx.x; i < static_cast<int>(sizeof memory_.counters / 4); i += level_threads) words[i] = 0;
    __syncthreads();
    const unsigned below = (1u << threadIdx.x % 32) - 1;
    auto* const mine = memory_.counters[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const bool is_there = 32 * i < left;
      const unsigned digit = is_there ? digit_of(key[i]) : most_digits;
      const unsigned equal = __match_any_sync(~0u, digit);
      const unsigned earlier = is_there ? mine[digit] : 0;
      __syncwarp();
      if (is_there && (equal & below) == 0) mine[digit] = static_cast<std::uint16_t>(earlier + __popc(equal));
      __syncwarp();
      rank[i] = static_cast<std::uint16_t>(earlier + __popc(equal & below));
    }
    __syncthreads();
    for (unsigned digit = threadIdx.x; digit < most_digits; digit += level_threads) {
      std::uint32_t sum = memory_.start[digit];
#pragma unroll
      for (int warp = 0; warp < level_warps; ++warp) {
        const std::uint32_t counted = memory_.counters[warp][digit];
        memory_.counters[warp][digit] = static_cast<std::uint16_t>(sum);
        sum += counted;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (32 * i < left) rank[i] += mine[digit_of(key[i])];
    __syncthreads();  // the keys overwrite the counters
  }

  Memory& memory_;
  const Columns<Key, Value>& columns_;
  const State& state_;
  const std::uint32_t* table_;
};

}  // namespace linkwise::cuda::msd
