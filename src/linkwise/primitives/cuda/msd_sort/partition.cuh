// Partitions spans of keys by their buckets' digits: tile after tile is ordered in shared memory and stored in runs.
//
// Keys without values need no order among equal digits: a key's rank is what the atomic increment of its digit's
// counter returns.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/narrow.cuh"
#include "linkwise/primitives/cuda/msd_sort/spans.cuh"

namespace linkwise::cuda::msd {

template <typename Key>
struct PartitionMemory {
  static constexpr int half = tile_records<Key> / 2;

  RunMemory<Key, half> input;
  Key keys[tile_records<Key>];
  SpanMemory span;  // whose starts become where each digit's next key goes in the tile
};

/// Waits for half of a tile's keys, and takes them into registers. Keys past the end of a shorter tile are undefined.
template <int which, typename Load, typename Key, int items>
__device__ __forceinline__ void take_half(Load& input, Key (&key)[items]) {
  input.wait();
  const Key* const keys = input.elements() + threadIdx.x;
#pragma unroll
  for (int i = 0; i < items / 2; ++i) key[which * items / 2 + i] = keys[level_threads * i];
}

template <typename Key, Way way, typename KeyColumns>
class SpanPartition {
  static constexpr bool is_shared = way == Way::shared;
  using Memory = PartitionMemory<Key>;
  static constexpr int items = tile_records<Key> / level_threads;

 public:
  __device__ SpanPartition(Memory& memory, const KeyColumns& columns, const State& state, const Cell* table)
      : memory_(memory),
        columns_(columns),
        state_(state),
        table_(table),
        source_(memory.span, state),
        input_(memory.input) {}

  /// Partitions the block's share of a level's spans. The next span's keys are loaded while this one's are ordered.
  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return input_.end();
    // The first two spans of each block are fixed; it takes the others from an atomic counter.
    Span span = source_.span_at(now, blockIdx.x, spans), next = source_.span_at(now, blockIdx.x + gridDim.x, spans);
    if (threadIdx.x == 0) {
      memory_.span.taken = source_.take();
      memory_.span.checksum = 0;
    }
    source_.begin_bucket(0, now, span);
    source_.begin_bucket(1, now, next);
    source_.wait_for_words();
    __syncthreads();
    Span later = source_.span_at(now, memory_.span.taken, spans);
    __syncthreads();
    if (threadIdx.x == 0) memory_.span.taken = source_.take();
    begin_load<0>(span, memory_.span.bucket[0]);
    source_.begin_counters(span, memory_.span.bucket[0]);
    source_.wait_for_words();
    __syncthreads();
    Key key[items];
    take_half<0>(input_, key);
    __syncthreads();
    begin_load<1>(span, memory_.span.bucket[0]);
    take_half<1>(input_, key);
    __syncthreads();
    if (next.count > 0) begin_load<0>(next, memory_.span.bucket[1]);
    for (int slot = 0;;) {
      const int next_slot = slot == 2 ? 0 : slot + 1, later_slot = 3 - slot - next_slot;
      const Bucket &bucket = memory_.span.bucket[slot], &next_bucket = memory_.span.bucket[next_slot];
      const Span beyond = source_.span_at(now, memory_.span.taken, spans);
      std::uint32_t taken = 0;
      if (threadIdx.x == 0) taken = source_.take();
      const Digits<Key> digit(bucket, *state_.root, table_, true);
      const bool moves = is_shared || is_moved(bucket, digit), is_plain = digit.is_plain(), is_last = next.count == 0;
      // The checksum is of the first bucket, which has all keys. Hashing costs least while other keys wait for ranks.
      const bool is_summed = columns_.checksum != nullptr && bucket.is_root;
      const bool sums_at_once = is_summed && moves && columns_.flips_bits();
      if (is_summed && !sums_at_once) add_hashes_of_warp(memory_.span.checksum, hashes_of(key, span.count));
      if (moves) {
        source_.find_starts(span, bucket);
        columns_.encode(key, bucket.place);
        if (is_plain && sums_at_once) order<true>(digit.plain(), key, span);
        else if (is_plain) order<false>(digit.plain(), key, span);
        else if (sums_at_once) order<true>(digit, key, span);
        else order<false>(digit, key, span);
      }
      if (!is_last) take_half<0>(input_, key);
      __syncthreads();
      if (!is_last) begin_load<1>(next, next_bucket);
      if (threadIdx.x == 0) memory_.span.taken = taken;
      source_.begin_bucket(later_slot, now, later);
      if (!is_last) source_.begin_counters(next, next_bucket);
      if (moves && is_plain) store(digit.plain(), span, bucket);
      if (moves && !is_plain) store(digit, span, bucket);
      if (is_last) break;
      take_half<1>(input_, key);
      source_.wait_for_words();
      __syncthreads();
      if (later.count > 0) begin_load<0>(later, memory_.span.bucket[later_slot]);
      span = next;
      next = later;
      later = beyond;
      slot = next_slot;
    }
    source_.wait_for_words();
    input_.end();
    if (threadIdx.x == 0) publish_checksum(columns_.checksum, memory_.span.checksum);
  }

 private:
  // The first half of a span is loaded while the span before it is ordered, the second while that one is stored.
  template <int which>
  __device__ __forceinline__ void begin_load(const Span& span, const Bucket& bucket) {
    constexpr unsigned first = which * Memory::half;
    const unsigned count = span.count > first ? min(span.count - first, unsigned{Memory::half}) : 0;
    begin_load_of_span(input_, columns_, state_, bucket, std::uint64_t{span.begin} + first, count);
  }
  // Orders the keys by digit in shared memory.
  template <bool sums, typename Digit>
  __device__ __forceinline__ void order(const Digit& digit, const Key (&key)[items], const Span& span) {
    const int left = static_cast<int>(span.count) - static_cast<int>(threadIdx.x);
    std::uint64_t hashes = sums ? constant_hashes(span.count) : 0;
    const Key flipped = sums ? columns_.code_of_zero() : 0;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (level_threads * i < left) {
        memory_.keys[atomicAdd(&memory_.span.start[digit(key[i])], 1u)] = key[i];
        if (sums) hashes += varying_hash(static_cast<Key>(key[i] ^ flipped), NoValue{});
      }
      if (i % 4 == 3) asm volatile("" ::: "memory");  // few in flight: the keys take most registers
    }
    if (sums) add_hashes_of_warp(memory_.span.checksum, hashes);
  }

  template <typename Digit>
  __device__ __forceinline__ void store(const Digit& digit, const Span& span, const Bucket& bucket) {
    if constexpr (way == Way::to_narrow) {
      const NarrowColumns narrow(columns_, state_);
      NarrowKey* const to = narrow.keys_at(narrow_parts);
      for_each_stored(digit, span, [&](unsigned, std::uint32_t at, Key key) { to[at] = narrow.narrow(key); });
    } else if constexpr (is_shared) {
      void* const* const arrays = state_.destinations->keys;
      for_each_stored(digit, span, [&](unsigned its_digit, std::uint32_t at, Key key) {
        static_cast<Key*>(arrays[its_digit])[at] = key;
      });
    } else {
      Key* const to = columns_.keys_at(bucket.next_place);
      for_each_stored(digit, span, [&](unsigned, std::uint32_t at, Key key) { to[at] = key; });
    }
  }
  template <typename Digit, typename Store>
  __device__ __forceinline__ void for_each_stored(const Digit& digit, const Span& span, const Store& store) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int left = static_cast<int>(span.count) - thread;
#pragma unroll 4
    for (int i = 0; i < items; ++i) {
      if (level_threads * i >= left) break;
      const Key moved = memory_.keys[thread + level_threads * i];
      const unsigned its_digit = digit(moved);
      store(its_digit, memory_.span.offset[its_digit] + (thread + level_threads * i), moved);
    }
  }

  Memory& memory_;
  const KeyColumns& columns_;
  const State& state_;
  const Cell* table_;
  SpanSource<is_shared> source_;
  RunLoad<Key, Memory::half> input_;
};

}  // namespace linkwise::cuda::msd
