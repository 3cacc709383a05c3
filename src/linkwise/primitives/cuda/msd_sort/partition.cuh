// Partitions spans by their buckets' digits: tile after tile is ordered in shared memory and stored in runs.
//
// Keys without values need no order among equal digits: a key's rank is what the atomic increment of its digit's
// counter returns.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/count.cuh"

namespace linkwise::cuda::msd {

template <typename Key>
struct PartitionMemory {
  static constexpr int half = tile_keys<Key> / 2;

  RunMemory<Key, half> input;
  Key keys[tile_keys<Key>];
  std::uint32_t start[most_digits];   // where each digit's next key goes in the tile
  std::uint32_t offset[most_digits];  // from a key's place in the tile to that in the destination
  std::uint32_t place[most_digits];   // counters of the next span …
  std::uint32_t end[most_digits];     // … and of the one after it
  std::uint32_t first;                // counter of the next span's bucket
  std::uint32_t taken;                // number of a span
  unsigned long long checksum;
  Bucket bucket[3];  // of this span, the next, and the one after it
  typename LevelScan::TempStorage scan;
};

template <typename Key>
class SpanPartition {
  using Memory = PartitionMemory<Key>;
  static constexpr int items = tile_items<Key>;

 public:
  __device__ SpanPartition(Memory& memory, const Columns<Key>& columns, const State& state, const Cell* table)
      : memory_(memory), columns_(columns), state_(state), table_(table), input_(memory.input) {}

  /// Partitions the block's share of a level's spans. The next span's keys are loaded while this one's are ordered.
  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return input_.end();
    // The first two spans of each block are fixed; it takes the others from an atomic counter.
    Span span = span_at(now, blockIdx.x, spans), next = span_at(now, blockIdx.x + gridDim.x, spans);
    if (threadIdx.x == 0) {
      memory_.taken = take();
      memory_.checksum = 0;
    }
    begin_bucket(0, now, span);
    begin_bucket(1, now, next);
    wait_for_words();
    __syncthreads();
    Span later = span_at(now, memory_.taken, spans);
    __syncthreads();
    if (threadIdx.x == 0) memory_.taken = take();
    begin_load<0>(span, memory_.bucket[0]);
    begin_counters(span, memory_.bucket[0]);
    wait_for_words();
    __syncthreads();
    Key key[items];
    take_keys<0>(key);
    __syncthreads();
    begin_load<1>(span, memory_.bucket[0]);
    take_keys<1>(key);
    __syncthreads();
    if (next.count > 0) begin_load<0>(next, memory_.bucket[1]);
    for (int slot = 0;;) {
      const int next_slot = slot == 2 ? 0 : slot + 1, later_slot = 3 - slot - next_slot;
      const Bucket &bucket = memory_.bucket[slot], &next_bucket = memory_.bucket[next_slot];
      const Span beyond = span_at(now, memory_.taken, spans);
      std::uint32_t taken = 0;
      if (threadIdx.x == 0) taken = take();
      const Digits<Key> digit(bucket, *state_.root, table_, true);
      const bool moves = is_divided(bucket, digit), is_plain = digit.is_plain(), is_last = next.count == 0;
      // The checksum is of the first bucket, which has all keys. Hashing costs least while other keys wait for ranks.
      const bool is_summed = columns_.checksum != nullptr && bucket.is_root;
      const bool sums_at_once = is_summed && moves && columns_.are_codes;
      if (is_summed && !sums_at_once) add_hashes(key, span);
      if (moves) {
        find_starts(span, bucket);
        columns_.encode(key, bucket.place);
        if (is_plain && sums_at_once) order<true>(digit.plain(), key, span);
        else if (is_plain) order<false>(digit.plain(), key, span);
        else if (sums_at_once) order<true>(digit, key, span);
        else order<false>(digit, key, span);
      }
      if (!is_last) take_keys<0>(key);
      __syncthreads();
      if (!is_last) begin_load<1>(next, next_bucket);
      if (threadIdx.x == 0) memory_.taken = taken;
      begin_bucket(later_slot, now, later);
      if (!is_last) begin_counters(next, next_bucket);
      if (moves && is_plain) store(digit.plain(), span, bucket);
      if (moves && !is_plain) store(digit, span, bucket);
      if (is_last) break;
      take_keys<1>(key);
      wait_for_words();
      __syncthreads();
      if (later.count > 0) begin_load<0>(later, memory_.bucket[later_slot]);
      span = next;
      next = later;
      later = beyond;
      slot = next_slot;
    }
    wait_for_words();
    input_.end();
    if (threadIdx.x == 0 && memory_.checksum != 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(columns_.checksum), memory_.checksum);
  }

 private:
  // Blocks that take spans in order stay near each other: two blocks' writes to one sector then meet in the cache.
  __device__ __forceinline__ std::uint32_t take() {
    return 2 * gridDim.x + atomicAdd(&state_.counters->spans_taken, 1u);
  }
  // Empty past the last one.
  __device__ __forceinline__ Span span_at(int now, std::uint32_t i, std::uint32_t spans) const {
    return i < spans ? state_.spans[now][i] : Span{};
  }

  // Copies single words to shared memory asynchronously, not through registers.
  __device__ __forceinline__ static void begin_word(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(bulk::shared_address(to)), "l"(from) : "memory");
  }
  __device__ __forceinline__ static void wait_for_words() { asm volatile("cp.async.wait_all;" ::: "memory"); }
  __device__ __forceinline__ void begin_bucket(int slot, int now, const Span& span) {
    if (threadIdx.x >= bucket_words) return;
    begin_word(reinterpret_cast<std::uint32_t*>(&memory_.bucket[slot]) + threadIdx.x,
               reinterpret_cast<const std::uint32_t*>(&state_.buckets[now][span.bucket]) + threadIdx.x);
  }
  // The counters of all spans are prefix sums already: the difference from the next one is the number of keys that
  // this span has of the digit.
  __device__ __forceinline__ void begin_counters(const Span& span, const Bucket& bucket) {
    if (threadIdx.x == 0) begin_word(&memory_.first, state_.entries + bucket.first_entry);
    if (threadIdx.x >= bucket.digits) return;
    const std::uint32_t* const entry = state_.entries + span.entry + threadIdx.x * bucket.spans;
    begin_word(memory_.place + threadIdx.x, entry);
    begin_word(memory_.end + threadIdx.x, entry + 1);
  }

  // The first half of a span is loaded while the span before it is ordered, the second while that one is stored.
  template <int which>
  __device__ __forceinline__ void begin_load(const Span& span, const Bucket& bucket) {
    constexpr unsigned first = which * Memory::half;
    const unsigned count = span.count > first ? min(span.count - first, unsigned{Memory::half}) : 0;
    input_.begin(columns_.keys_at(bucket.place), columns_.count, std::uint64_t{span.begin} + first, count);
  }
  // Keys past the end of the span are undefined.
  template <int which>
  __device__ __forceinline__ void take_keys(Key (&key)[items]) {
    input_.wait();
    const Key* const keys = input_.elements() + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items / 2; ++i) key[which * items / 2 + i] = keys[level_threads * i];
  }

  // Finds where each digit's keys go in the tile, and from there in the destination.
  __device__ __forceinline__ void find_starts(const Span& span, const Bucket& bucket) {
    static_assert(most_digits <= level_threads);
    const unsigned digit = threadIdx.x;
    std::uint32_t count = 0, place = 0, start;
    if (digit < bucket.digits) {
      const bool is_last = digit + 1 == bucket.digits && span.entry + 1 == bucket.first_entry + bucket.spans;
      place = memory_.place[digit];
      count = (is_last ? memory_.first + bucket.count : memory_.end[digit]) - place;
    }
    LevelScan(memory_.scan).ExclusiveSum(count, start);
    if (digit < bucket.digits) {
      memory_.start[digit] = start;
      memory_.offset[digit] = place - memory_.first + bucket.begin - start;
    }
    __syncthreads();
  }

  // Orders the keys by digit in shared memory.
  template <bool sums, typename Digit>
  __device__ __forceinline__ void order(const Digit& digit, const Key (&key)[items], const Span& span) {
    const int left = static_cast<int>(span.count) - static_cast<int>(threadIdx.x);
    std::uint64_t hashes = 0;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (level_threads * i < left) {
        memory_.keys[atomicAdd(&memory_.start[digit(key[i])], 1u)] = key[i];
        if (sums) hashes += record_hash(key[i], NoValue{});
      }
      if (i % 4 == 3) asm volatile("" ::: "memory");  // few in flight: the keys take most registers
    }
    if (sums) add_sum(hashes);
  }

  __device__ __forceinline__ void add_hashes(const Key (&key)[items], const Span& span) {
    const int left = static_cast<int>(span.count) - static_cast<int>(threadIdx.x);
    std::uint64_t hashes = 0;
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (level_threads * i < left) hashes += record_hash(key[i], NoValue{});
    add_sum(hashes);
  }
  __device__ __forceinline__ void add_sum(std::uint64_t sum) {
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (threadIdx.x % 32 == 0) atomicAdd(&memory_.checksum, static_cast<unsigned long long>(sum));
  }

  template <typename Digit>
  __device__ __forceinline__ void store(const Digit& digit, const Span& span, const Bucket& bucket) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int left = static_cast<int>(span.count) - thread;
    Key* const to = columns_.keys_at(bucket.next_place);
#pragma unroll 4
    for (int i = 0; i < items; ++i) {
      if (level_threads * i >= left) break;
      const Key moved = memory_.keys[thread + level_threads * i];
      to[memory_.offset[digit(moved)] + (thread + level_threads * i)] = moved;
    }
  }

  Memory& memory_;
  const Columns<Key>& columns_;
  const State& state_;
  const Cell* table_;
  RunLoad<Key, Memory::half> input_;
};

}  // namespace linkwise::cuda::msd
