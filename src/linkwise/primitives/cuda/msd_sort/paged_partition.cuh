// The first level of a long sort of keys alone: tiles are ordered by digit in shared memory, and stored in pages.
//
// As in partition.cuh, except that the block counts the tile's digits itself, and reserves places for them.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/levels.cuh"
#include "linkwise/primitives/cuda/msd_sort/pages.cuh"

namespace linkwise::cuda::msd {

template <typename Key>
struct PagedMemory {
  static constexpr int half = tile_records<Key> / 2;

  RunMemory<Key, half> input;
  Key keys[tile_records<Key>];
  std::uint32_t counters[level_threads];  // of the tile's digits; then where each one's keys begin
  PagedRun run[most_leading_digits];
  std::uint32_t rest[most_leading_digits];
  std::uint32_t taken;  // number of a tile
  unsigned long long checksum;
  typename LevelScan::TempStorage scan;
};

/// `Stored`: the keys' type in the pages, which narrow keys have less bytes in.
template <typename Key, typename Stored>
class PagedPartition {
  using Memory = PagedMemory<Key>;
  static constexpr bool are_narrow = sizeof(Stored) < sizeof(Key);
  static constexpr int items = tile_items<Key>;
  static constexpr std::uint32_t tile = tile_records<Key>;

 public:
  __device__ PagedPartition(Memory& memory, const Columns<Key>& columns, const State& state, const Cell* table)
      : memory_(memory),
        columns_(columns),
        state_(state),
        root_(state.buckets[0][0]),
        pages_(state, root_.count),
        table_(table),
        input_(memory.input) {}

  /// Partitions the block's share of the tiles. The next one's keys are loaded while this one's are ordered.
  __device__ __forceinline__ void run() {
    const std::uint32_t tiles = (root_.count - 1) / tile + 1;
    if (blockIdx.x >= tiles) return input_.end();
    // The first two tiles of each block are fixed; it takes the others from an atomic counter.
    std::uint32_t now = blockIdx.x, next = now + gridDim.x;
    memory_.counters[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      memory_.taken = take();
      memory_.checksum = 0;
    }
    begin_load<0>(now);
    Key key[items];
    take_half<0>(input_, key);
    __syncthreads();
    std::uint32_t later = memory_.taken;
    begin_load<1>(now);
    take_half<1>(input_, key);
    __syncthreads();
    if (threadIdx.x == 0) memory_.taken = take();
    if (next < tiles) begin_load<0>(next);
    __syncthreads();
    const Digits<Key> digit(root_, *state_.root, table_);
    // Hashing costs least while other keys wait for ranks.
    const bool is_plain = digit.is_plain(), is_summed = columns_.checksum != nullptr;
    const bool sums_at_once = is_summed && columns_.flips_bits();
    for (;;) {
      const bool is_last = next >= tiles;
      const std::uint32_t count = records_of(now), beyond = memory_.taken;
      if (is_summed && !sums_at_once) add_hashes_of_warp(memory_.checksum, hashes_of(key, count));
      columns_.encode(key, in_input);
      if (is_plain && sums_at_once) order<true>(digit.plain(), key, count);
      else if (is_plain) order<false>(digit.plain(), key, count);
      else if (sums_at_once) order<true>(digit, key, count);
      else order<false>(digit, key, count);
      if (!is_last) take_half<0>(input_, key);
      __syncthreads();
      if (!is_last) begin_load<1>(next);
      if (threadIdx.x == 0) memory_.taken = take();
      memory_.counters[threadIdx.x] = 0;
      if (is_plain) store(digit.plain(), count);
      else store(digit, count);
      if (is_last) break;
      take_half<1>(input_, key);
      __syncthreads();
      if (later < tiles) begin_load<0>(later);
      now = next;
      next = later;
      later = beyond;
    }
    input_.end();
    if (are_narrow && are_wide_) state_.counters->are_wide = 1;
    if (threadIdx.x == 0) publish_checksum(columns_.checksum, memory_.checksum);
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t take() const {
    return 2 * gridDim.x + atomicAdd(&state_.counters->spans_taken, 1u);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t records_of(std::uint32_t number) const {
    return min(tile, root_.count - number * tile);
  }

  // The first half of a tile is loaded while the tile before it is ordered, the second while that one is stored.
  template <int which>
  __device__ __forceinline__ void begin_load(std::uint32_t number) {
    constexpr unsigned first = which * Memory::half;
    const unsigned records = records_of(number), count = records > first ? min(records - first, Memory::half) : 0;
    input_.begin(columns_.keys_at(in_input), columns_.count, std::uint64_t{number} * tile + first, count);
  }
  // Orders the keys by digit in shared memory, and finds where each digit's keys go. Digits are counted first: a key's
  // rank in a register, from a single atomic, would be one register too many.
  template <bool sums, typename Digit>
  __device__ __forceinline__ void order(const Digit& digit_of, const Key (&key)[items], std::uint32_t count) {
    const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
    std::uint64_t hashes = sums ? constant_hashes(count) : 0;
    const Key flipped = sums ? columns_.code_of_zero() : 0;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (level_threads * i < left) {
        atomicAdd(&memory_.counters[digit_of(key[i])], 1u);
        are_wide_ |= are_narrow && !fits_narrow_key(key[i] - root_.low);
      }
      if (i % 4 == 3) asm volatile("" ::: "memory");  // few in flight: the keys take most registers
    }
    __syncthreads();
    const unsigned digit = threadIdx.x;
    const std::uint32_t records = memory_.counters[digit];
    const std::uint32_t reserved = records > 0 ? pages_.reserve(digit, records) : 0;
    std::uint32_t start;
    LevelScan(memory_.scan).ExclusiveSum(records, start);
    memory_.counters[digit] = start;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (level_threads * i < left) {
        memory_.keys[atomicAdd(&memory_.counters[digit_of(key[i])], 1u)] = key[i];
        if (sums) hashes += varying_hash(static_cast<Key>(key[i] ^ flipped), NoValue{});
      }
      if (i % 4 == 3) asm volatile("" ::: "memory");
    }
    if (sums) add_hashes_of_warp(memory_.checksum, hashes);
    if (threadIdx.x / 32 * 32 < most_leading_digits) find_pages(digit, reserved, records, start);
  }

  __device__ __forceinline__ void find_pages(unsigned digit, std::uint32_t reserved, std::uint32_t records,
                                             std::uint32_t start) {
    std::uint32_t rest = 0;
    const PagedRun run = pages_.find(digit, reserved, records, start, rest);
    if (records == 0) return;
    memory_.run[digit] = run;
    memory_.rest[digit] = rest;
  }

  [[nodiscard]] __device__ __forceinline__ Stored* pages_to() const {
    if constexpr (are_narrow) return NarrowColumns(columns_, state_).keys_at(narrow_parts);
    else return columns_.keys_at(root_.next_place);
  }

  template <typename Digit>
  __device__ __forceinline__ void store(const Digit& digit_of, std::uint32_t count) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int left = static_cast<int>(count) - thread;
    Stored* const pages = pages_to();
    Stored* const in_scratch = static_cast<Stored*>(state_.scratch_pages);
    const std::uint32_t whole = root_.count / Pages<Stored>::length * Pages<Stored>::length;
    const Key low = are_narrow ? static_cast<Key>(root_.low) : Key{0};
#pragma unroll 4
    for (int i = 0; i < items; ++i) {
      if (level_threads * i >= left) break;
      const std::uint32_t at = thread + level_threads * i;
      const Key moved = memory_.keys[at];
      const unsigned digit = digit_of(moved);
      const PagedRun run = memory_.run[digit];
      const std::uint32_t to = at + (at < run.end ? run.delta : memory_.rest[digit]);
      (to < whole ? pages[to] : in_scratch[to - whole]) = static_cast<Stored>(moved - low);
    }
  }

  Memory& memory_;
  const Columns<Key>& columns_;
  const State& state_;
  const Bucket& root_;
  const Pages<Stored> pages_;
  const Cell* table_;
  RunLoad<Key, Memory::half> input_;
  bool are_wide_ = false;  // some key of this thread
};

template <typename Key>
struct PagedLevelMemory {
  PagedMemory<Key> partition;
  Cell table[table_cells];  // the root's
};

template <typename Key, typename Stored>
__global__ void __launch_bounds__(level_threads, 1)
    partition_into_pages(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<PagedLevelMemory<Key>*>(raw);
  if (!stores_pages<Key, Stored>(*state.counters)) return;
  load_table(memory.table, state);
  PagedPartition<Key, Stored>(memory.partition, columns, state, memory.table).run();
}

}  // namespace linkwise::cuda::msd
