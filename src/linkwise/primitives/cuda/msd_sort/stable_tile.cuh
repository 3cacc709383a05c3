// A tile of records with values, ordered stably by their digits in shared memory.
//
// Each warp ranks its own part of the tile, with a counter for each digit. The counters' sums over the warps tell where
// each warp's records of a digit go in the tile (Merrill and Grimshaw, "High Performance and Scalable Radix Sorting",
// 2011). A record's rank is what the atomic increment of its digit's counter returns: GPUs increment for a warp's lanes
// in their order, but CUDA does not promise it. So the order is checked while the keys are stored. If it is wrong, the
// tile is done again, with ranks by votes among the lanes, which take several times as long.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/spans.cuh"

namespace linkwise::cuda::msd {

/// The lanes with the same digit.
__device__ inline unsigned lanes_with(unsigned digit) {
  unsigned lanes = ~0u;
  for (unsigned bit = 1; bit < most_digits; bit *= 2) {
    const bool is_set = (digit & bit) != 0;
    const unsigned vote = __ballot_sync(~0u, is_set);
    lanes &= is_set ? vote : ~vote;
  }
  return lanes;
}

constexpr int level_warps = level_threads / 32;

template <typename Key, typename Value>
struct StableTileMemory {
  RunMemory<Key, tile_records<Key, Value>> keys;
  RunMemory<Value, tile_records<Key, Value>> values;
  // By digit: a record's digit in the upper 16 bits, and its position in the span. They increase.
  std::uint32_t origins[tile_records<Key, Value>];
  // Two digits in a word: how many records of each a warp has met, and later where its first one goes in the tile. The
  // digit after the last counts what is no record.
  static constexpr unsigned counter_words = stable_digits / 2 + 4;
  alignas(16) std::uint32_t counters[level_warps][counter_words];
  SpanMemory span;
  std::uint32_t doubtful;  // the last of the block's list of spans
};

/// `is_shared`: the records go to the digits' destinations; otherwise within the columns.
template <typename Key, typename Value, bool is_shared>
class StableTile {
  using Memory = StableTileMemory<Key, Value>;
  static constexpr int items = tile_items<Key, Value>;
  static_assert(tile_records<Key, Value> < 1 << 16);

 public:
  /// `keys`, `values`: the span's, in shared memory.
  __device__ __forceinline__ StableTile(Memory& memory, const RecordColumns<Key, Value>& columns,
                                        const Destinations* destinations, const Span& span, const Bucket& bucket,
                                        Key* keys, const Value* values)
      : memory_(memory),
        columns_(columns),
        destinations_(destinations),
        count_(span.count),
        next_place_(bucket.next_place),
        digits_(bucket.digits),
        keys_(keys),
        values_(values) {}

  /// Replaces the native keys of the input by their codes.
  __device__ __forceinline__ void encode() {
    if (columns_.are_codes) return;
    for (int i = 0; i < items; ++i) {
      if (!has(i)) break;
      Key& key = keys_[position_of(i)];
      key = encode_bits(key, columns_.key_class, columns_.descending);
    }
    bulk::order_shared_writes();
  }

  /// Clears the warp's counters.
  __device__ __forceinline__ static void clear_counters(Memory& memory) {
    constexpr unsigned words_at_once = 4;
    auto* const words = reinterpret_cast<uint4*>(memory.counters[threadIdx.x / 32]);
    for (unsigned i = threadIdx.x % 32; i < Memory::counter_words / words_at_once; i += 32) words[i] = {0, 0, 0, 0};
  }

  /// Orders the records by digit: finds their origins. The counters must be clear.
  template <typename Digit>
  __device__ __forceinline__ void order(const Digit& digit) {
    std::uint32_t ranked[items];  // digits in the upper 16 bits, and ranks
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const unsigned mine = digit_of(digit, i), upper = mine % 2 * 16;
      const std::uint32_t found = atomicAdd(&memory_.counters[threadIdx.x / 32][mine / 2], 1u << upper) >> upper;
      ranked[i] = __byte_perm(found, mine, 0x5410);
    }
    add_over_warps();
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const std::uint32_t at = my_counter(ranked[i] >> 16) + (ranked[i] & 0xffff);
      if (has(i)) put(at, ranked[i] >> 16, position_of(i));
    }
    __syncthreads();
  }

  /// The same, with ranks that do not depend on the order of atomics.
  template <typename Digit>
  __device__ void order_by_votes(const Digit& digit) {
    for (const bool puts : {false, true}) {
      for (int i = 0; i < items; ++i) {
        const unsigned mine = digit_of(digit, i), before = my_counter(mine);
        const unsigned lanes = lanes_with(mine), lower = lanes & ((1u << threadIdx.x % 32) - 1);
        __syncwarp();
        if (lower == 0) my_counter(mine) = static_cast<std::uint16_t>(before + __popc(lanes));
        __syncwarp();
        if (has(i) && puts) put(before + __popc(lower), mine, position_of(i));
      }
      if (!puts) add_over_warps();
    }
    __syncthreads();
  }

  /// Returns whether the records are in order.
  __device__ __forceinline__ bool store_keys() const {
    bool is_in_order = true;
    Key* const next = columns_.keys_at(next_place_);
#pragma unroll 4
    for (int i = 0; i < items; ++i) {
      const unsigned at = place_of(i), at_or_last = min(at, count_ - 1);
      const std::uint32_t origin = memory_.origins[at_or_last], before = memory_.origins[max(at_or_last, 1u) - 1];
      is_in_order &= at_or_last == 0 || before < origin;
      const Key key = keys_[origin & 0xffff];
      if (at < count_) array_of(origin, next, destinations_->keys)[memory_.span.offset[origin >> 16] + at] = key;
    }
    return __syncthreads_and(is_in_order) != 0;
  }
  __device__ __forceinline__ void store_values() const {
    Value* const next = columns_.values_at(next_place_);
#pragma unroll 4
    for (int i = 0; i < items; ++i) {
      const unsigned at = place_of(i);
      const std::uint32_t origin = memory_.origins[min(at, count_ - 1)];
      const Value value = values_[origin & 0xffff];
      if (at < count_) array_of(origin, next, destinations_->values)[memory_.span.offset[origin >> 16] + at] = value;
    }
  }

  /// Of the thread's share of the records. `are_encoded`: whether the keys have been replaced by their codes.
  [[nodiscard]] __device__ __forceinline__ std::uint64_t sum_of_hashes(bool are_encoded) const {
    std::uint64_t sum = 0;
    for (int i = 0; i < items; ++i) {
      if (!has(i)) break;
      const Key key = keys_[position_of(i)];
      sum += record_hash(are_encoded ? columns_.native(key) : key, values_[position_of(i)]);
    }
    return sum;
  }

 private:
  // While records are ranked, a thread's are 32 apart, and a warp's follow each other.
  __device__ __forceinline__ static unsigned position_of(int item) {
    return threadIdx.x / 32 * (32 * items) + threadIdx.x % 32 + 32 * item;
  }
  [[nodiscard]] __device__ __forceinline__ bool has(int item) const { return position_of(item) < count_; }
  template <typename Digit>
  [[nodiscard]] __device__ __forceinline__ unsigned digit_of(const Digit& digit, int item) const {
    const unsigned found = digit(keys_[position_of(item)]);
    return has(item) ? found : stable_digits;
  }
  // While they are stored, a warp's are neighbours.
  __device__ __forceinline__ static unsigned place_of(int item) { return threadIdx.x + level_threads * item; }

  // Where records with the origin's digit go.
  template <typename Element>
  __device__ __forceinline__ static Element* array_of(std::uint32_t origin, Element* next, void* const* destinations) {
    if constexpr (is_shared) return static_cast<Element*>(destinations[origin >> 16]);
    else return next;
  }

  __device__ __forceinline__ std::uint16_t& counter(unsigned warp, unsigned digit) {
    return reinterpret_cast<std::uint16_t*>(memory_.counters[warp])[digit];
  }
  __device__ __forceinline__ std::uint16_t& my_counter(unsigned digit) { return counter(threadIdx.x / 32, digit); }
  __device__ __forceinline__ void put(std::uint32_t at, unsigned digit, unsigned position) {
    memory_.origins[at] = digit << 16 | position;
  }

  // Turns the warps' counters into where their records go in the tile.
  __device__ __forceinline__ void add_over_warps() {
    __syncthreads();
    if (threadIdx.x < digits_) {
      std::uint32_t place = memory_.span.start[threadIdx.x];
#pragma unroll 8
      for (unsigned warp = 0; warp < level_warps; ++warp) {
        std::uint16_t& records = counter(warp, threadIdx.x);
        const std::uint32_t next = place + records;
        records = static_cast<std::uint16_t>(place);
        place = next;
      }
    }
    __syncthreads();
  }

  Memory& memory_;
  const RecordColumns<Key, Value>& columns_;
  const Destinations* const destinations_;
  const std::uint32_t count_, next_place_, digits_;
  Key* const keys_;
  const Value* const values_;
};

}  // namespace linkwise::cuda::msd
