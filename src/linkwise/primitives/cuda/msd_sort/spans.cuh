// How a block of a partition takes spans, and what it knows of their digits.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/checksums.cuh"
#include "linkwise/primitives/cuda/msd_sort/count.cuh"

namespace linkwise::cuda::msd {

struct SpanMemory {
  std::uint32_t offset[most_digits];  // from a record's place in the tile to that in the destination
  std::uint32_t place[most_digits];   // counters of a span …
  std::uint32_t end[most_digits];     // … and of the one after it
  std::uint32_t start[most_digits];   // where each digit's records begin in the tile
  std::uint32_t first;                // counter of the span's bucket
  std::uint32_t taken;                // number of a span
  unsigned long long checksum;
  Bucket bucket[3];  // of this span, the next, and the one after it
  typename LevelScan::TempStorage scan;
};

template <bool is_shared>
class SpanSource {
 public:
  __device__ SpanSource(SpanMemory& memory, const State& state) : memory_(memory), state_(state) {}

  /// Blocks that take spans in order stay near each other: two blocks' writes to one sector then meet in the cache.
  /// The first two spans of each block are fixed.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t take() const {
    return 2 * gridDim.x + atomicAdd(&state_.counters->spans_taken, 1u);
  }
  /// Empty past the last one.
  [[nodiscard]] __device__ __forceinline__ Span span_at(int now, std::uint32_t i, std::uint32_t spans) const {
    return i < spans ? state_.spans[now][i] : Span{};
  }

  /// Asynchronous copies to shared memory, of single words that need no registers.
  __device__ __forceinline__ void begin_bucket(int slot, int now, const Span& span) {
    if (threadIdx.x >= bucket_words) return;
    begin_word(reinterpret_cast<std::uint32_t*>(&memory_.bucket[slot]) + threadIdx.x,
               reinterpret_cast<const std::uint32_t*>(&state_.buckets[now][span.bucket]) + threadIdx.x);
  }
  /// The counters of all spans are prefix sums already: the difference from the next one is the number of records that
  /// this span has of the digit.
  __device__ __forceinline__ void begin_counters(const Span& span, const Bucket& bucket) {
    if (threadIdx.x == 0) begin_word(&memory_.first, state_.entries + bucket.first_entry);
    if (threadIdx.x >= bucket.digits) return;
    const std::uint32_t* const entry = state_.entries + span.entry + threadIdx.x * bucket.spans;
    begin_word(memory_.place + threadIdx.x, entry);
    begin_word(memory_.end + threadIdx.x, entry + 1);
  }
  __device__ __forceinline__ static void wait_for_words() { asm volatile("cp.async.wait_all;" ::: "memory"); }

  /// Finds where each digit's records begin in the tile, and where they go from there: `is_shared`, to the digit's
  /// destination. Ends with a block barrier.
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
      const std::uint32_t delta = is_shared ? state_.destinations->delta[digit] : bucket.begin - memory_.first;
      memory_.offset[digit] = place + delta - start;
    }
    __syncthreads();
  }

 private:
  __device__ __forceinline__ static void begin_word(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(bulk::shared_address(to)), "l"(from) : "memory");
  }

  SpanMemory& memory_;
  const State& state_;
};

}  // namespace linkwise::cuda::msd
