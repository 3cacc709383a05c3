// Items of records with values: each is read once, sorted stably in shared memory, and written once.
//
// A record is sorted as one number: its key, minus the item's lowest, and below it its position in the item, which
// decides among equal keys. If both have more than 64 bits, the key's last ones are left out: records that only they
// tell apart are rare among evenly spread keys, and leave the item to the second kernel.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/finish.cuh"

namespace linkwise::cuda::msd {

constexpr int position_bits = 13;

/// What an item's records are sorted by: numbers of 32 bits where these suffice, or of 64.
template <typename Key, typename Number>
class RecordNumbers {
  static constexpr int key_bits = 8 * sizeof(Number) - position_bits;

 public:
  __device__ RecordNumbers(Key low, std::uint64_t reach)
      : low_(low), reach_(reach), dropped_(may_drop ? max(bit_width(reach) - key_bits, 0) : 0) {}

  [[nodiscard]] __device__ static bool suffice(std::uint64_t reach) { return bit_width(reach) <= key_bits; }
  [[nodiscard]] __device__ bool are_whole() const { return dropped_ == 0; }
  [[nodiscard]] __device__ std::uint64_t reach() const {
    return (reach_ >> dropped_ << position_bits) + ((1u << position_bits) - 1);
  }
  [[nodiscard]] __device__ Number of(const Key* keys, unsigned position) const {
    return static_cast<Number>(static_cast<Key>(keys[position] - low_) >> dropped_) << position_bits | position;
  }
  [[nodiscard]] __device__ static unsigned position(Number number) {
    return static_cast<unsigned>(number) & ((1u << position_bits) - 1);
  }
  [[nodiscard]] __device__ Key key(Number number, const Key* keys) const {
    return are_whole() ? static_cast<Key>(static_cast<Key>(number >> position_bits) + low_) : keys[position(number)];
  }

 private:
  static constexpr bool may_drop = sizeof(Key) == 8 && sizeof(Number) == 8;

  Key low_;
  std::uint64_t reach_;
  int dropped_;  // bits of the keys
};

/// `is_alone`: on a multiprocessor, and has room to order long bins of numbers of 64 bits.
template <typename Key, typename Value, int threads, bool is_alone>
class RecordItemSort {
  static constexpr int items = items_each<Key, Value, threads>;
  template <typename Number, int ordered_bits>
  using BinsOf = BinSort<Number, threads, items, items / 2, ordered_bits>;
  template <typename Number>
  static constexpr bool has_room =
      is_alone || sizeof(RunMemory<Key, item_capacity<Key, Value>>) +
                          sizeof(RunMemory<Value, item_capacity<Key, Value>>) +
                          sizeof(typename BinsOf<Number, position_bits>::Memory) + sizeof(RangeMemory) + 128 <=
                      finish_bytes;
  template <typename Number>
  using Bins = BinsOf<Number, has_room<Number> ? position_bits : 0>;
  using BlockSort = cub::BlockRadixSort<Key, threads, items, std::uint16_t>;
  static constexpr std::uint32_t capacity = item_capacity<Key, Value>;
  static_assert(capacity <= 1 << position_bits);

 public:
  struct Memory {
    RunMemory<Key, capacity> keys;
    RunMemory<Value, capacity> values;
    union {
      typename Bins<std::uint32_t>::Memory short_bins;
      typename Bins<std::uint64_t>::Memory bins;
      typename BlockSort::TempStorage sort;
    };
    RangeMemory range;
  };

  __device__ RecordItemSort(Memory& memory, const RecordColumns<Key, Value>& columns)
      : memory_(memory), columns_(columns), keys_(memory.keys), values_(memory.values) {}

  /// Begins to load the item's keys, for `sort_evenly_spread`.
  __device__ __forceinline__ void begin(const Item& item) {
    keys_.begin(columns_.keys_at(item.place), columns_.count, item.begin, item.is_equal != 0 ? 0 : item.count);
  }

  /// Call after the item's `begin`; begins to load the next. Returns false, and writes nothing, if bins do not sort it.
  __device__ __forceinline__ bool sort_evenly_spread(const Item& item, const Item& next) {
    keys_.wait();
    if (item.is_equal != 0) {
      __syncthreads();
      begin(next);
      move(item);
      return true;
    }
    begin_values(item);
    const KeySpan range{item.low, item.reach};
    const Key* const keys = keys_.elements();
    if (RecordNumbers<Key, std::uint32_t>::suffice(item.reach))
      return sorted_by<std::uint32_t>(memory_.short_bins, item, range, keys, [&] { begin(next); });
    const bool are_whole = RecordNumbers<Key, std::uint64_t>::suffice(item.reach);
    const bool is_sorted = sorted_by<std::uint64_t>(memory_.bins, item, range, keys, [&] {
      if (are_whole) begin(next);
    });
    __syncthreads();
    if (!are_whole) begin(next);
    return is_sorted;
  }
  __device__ __forceinline__ void sort_any(const Item& item) {
    if (item.is_equal != 0) return move(item);
    begin_values(item);
    const Key* const keys = keys_of(item);
    const KeySpan range = range_of(memory_.range, keys, item.count);
    if (RecordNumbers<Key, std::uint64_t>::suffice(range.reach) &&
        sorted_by<std::uint64_t>(memory_.bins, item, range, keys, [] {}))
      return;
    if (!RecordNumbers<Key, std::uint64_t>::suffice(range.reach)) values_.wait();
    sort_by_digits(item, static_cast<Key>(range.low), range.reach);
  }
  __device__ __forceinline__ void end() {
    keys_.end();
    values_.end();
  }

 private:
  __device__ __forceinline__ const Key* keys_of(const Item& item) const {
    return columns_.keys_at(item.place) + item.begin;
  }
  __device__ __forceinline__ Key* keys_to(const Item& item) const { return columns_.keys[in_result] + item.begin; }
  __device__ __forceinline__ Value* values_to(const Item& item) const {
    return columns_.values[in_result] + item.begin;
  }
  __device__ __forceinline__ void begin_values(const Item& item) {
    values_.begin(columns_.values_at(item.place), columns_.count, item.begin, item.count);
  }

  __device__ __forceinline__ void move(const Item& item) {
    if (columns_.are_final(item.place)) return;
    const Value* const values = columns_.values_at(item.place) + item.begin;
    for (std::uint32_t i = threadIdx.x; i < item.count; i += threads) {
      const Key key = keys_of(item)[i];
      keys_to(item)[i] = item.place == in_input ? key : columns_.native(key);
      if (item.place != in_result) values_to(item)[i] = values[i];
    }
  }

  // Returns false, and writes nothing, if bins do not sort the item. Waits for the values.
  template <typename Number, typename WhenRead>
  __device__ __forceinline__ bool sorted_by(typename Bins<Number>::Memory& memory, const Item& item,
                                            const KeySpan& range, const Key* keys, const WhenRead& when_read) {
    const RecordNumbers<Key, Number> numbers(static_cast<Key>(range.low), range.reach);
    Bins<Number> bins(memory);
    const auto number_at = [=](unsigned position) { return numbers.of(keys, position); };
    bool is_sorted = bins.sort(item.count, numbers.reach(), number_at, when_read);
    if (is_sorted && !numbers.are_whole()) is_sorted = agrees(item, numbers, bins.numbers(), keys);
    values_.wait();
    if (is_sorted) write(item, numbers, bins.numbers(), keys);
    return is_sorted;
  }

  // Whether the order of the numbers is that of the whole keys.
  template <typename Number>
  __device__ __forceinline__ static bool agrees(const Item& item, const RecordNumbers<Key, Number>& numbers,
                                                const Number* sorted, const Key* keys) {
    bool agree = true;
    for (unsigned at = threadIdx.x + 1; at < item.count; at += threads)
      agree &= numbers.key(sorted[at - 1], keys) <= numbers.key(sorted[at], keys);
    return __syncthreads_and(agree) != 0;
  }

  // Starts at a multiple of 32 records, so that a warp writes whole cache lines.
  template <typename Number>
  __device__ __forceinline__ void write(const Item& item, const RecordNumbers<Key, Number>& numbers,
                                        const Number* sorted, const Key* keys) {
    const int phase = static_cast<int>(item.begin % 32), count = static_cast<int>(item.count);
    const Value* const values = values_.elements();
#pragma unroll
    for (int i = 0; i <= items; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * threads - phase;
      if (at < 0 || at >= count) continue;
      keys_to(item)[at] = columns_.native(numbers.key(sorted[at], keys));
      values_to(item)[at] = values[numbers.position(sorted[at])];
    }
  }

  // Block-wide radix sort, for any keys, of which it takes consecutive ones in each thread. The values are in shared
  // memory.
  __device__ __forceinline__ void sort_by_digits(const Item& item, Key low, std::uint64_t reach) {
    __syncthreads();
    const Key* const from = keys_of(item);
    const int first = static_cast<int>(threadIdx.x) * items, count = static_cast<int>(item.count);
    Key key[items];
    std::uint16_t position[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      key[i] = first + i < count ? static_cast<Key>(from[first + i] - low) : static_cast<Key>(~Key{0});
      position[i] = static_cast<std::uint16_t>(first + i);
    }
    // One bit more than the keys have, so that the padding sorts last; it does anyway where all bits count, as it
    // comes after equal keys.
    const int bits = min(bit_width(reach) + 1, static_cast<int>(8 * sizeof(Key)));
    BlockSort(memory_.sort).SortBlockedToStriped(key, position, 0, bits);
    const Value* const values = values_.elements();
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const std::uint32_t at = threadIdx.x + i * threads;
      if (at >= item.count) continue;
      keys_to(item)[at] = columns_.native(static_cast<Key>(key[i] + low));
      values_to(item)[at] = values[position[i]];
    }
  }

  Memory& memory_;
  const RecordColumns<Key, Value>& columns_;
  RunLoad<Key, capacity> keys_;
  RunLoad<Value, capacity> values_;
};

}  // namespace linkwise::cuda::msd
