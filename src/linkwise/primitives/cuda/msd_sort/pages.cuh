// Pages: where the first level of a long sort of keys alone puts them without having counted them, which saves a
// reading of all keys.
//
// Each digit's keys fill pages of one tile, which it takes when it needs them: first those of the place that the level
// stores to, then some in the scratch, because the last page of each digit may not be full. A page is a span of the
// next level, which counts, and moves each digit's keys to where they belong.
#pragma once

#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/split.cuh"

namespace linkwise::cuda::msd {

/// Where a tile's run of one digit goes: to one page, or to the end of one and the beginning of another.
struct alignas(8) PagedRun {
  std::uint32_t delta;  ///< from a record's place in the tile to its position in the pages, modulo 2^32, …
  std::uint32_t end;    ///< … of those before this place in the tile
};

template <typename Key>
class Pages {
 public:
  static constexpr std::uint32_t length = tile_records<Key>;

  __device__ Pages(const State& state, std::uint32_t count) : state_(state), each_(of_digit(count)) {}

  /// Pages that a digit can take, which is the length of a row of the table.
  LINKWISE_BOTH static std::uint32_t of_digit(std::uint32_t count) { return count / length + 1; }

  /// Reserves the next places of a digit.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t reserve(unsigned digit, std::uint32_t records) const {
    return atomicAdd(state_.paged + digit, records);
  }

  /// Called by whole warps: finds the pages of a run of `records`, at most a page, that begin at `reserved` of the
  /// digit and at `start` in the tile. Those that begin in the run are taken; another run takes the one before, and may
  /// do so a little later. `rest`: the delta of what does not fit into the first page.
  [[nodiscard]] __device__ __forceinline__ PagedRun find(unsigned digit, std::uint32_t reserved, std::uint32_t records,
                                                         std::uint32_t start, std::uint32_t& rest) const {
    std::uint32_t* const page = state_.entries + digit * each_ + reserved / length;
    const std::uint32_t within = reserved % length, end = start + (length - within);
    const bool begins = within == 0 && records > 0;
    std::uint32_t first = begins ? take(page) : 0;
    if (within + records > length) rest = take(page + 1) * length - end;
    __syncwarp();  // other blocks wait for these pages
    if (records > 0 && !begins) first = wait_for(page);
    return {first * length + within - start, end};
  }

  /// Of a page that has been taken.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t position(unsigned digit, std::uint32_t page) const {
    return (state_.entries[digit * each_ + page] - 1) * length;
  }

 private:
  // The table has numbers of pages from 1 on: 0 has not been taken.
  __device__ __forceinline__ std::uint32_t take(std::uint32_t* page) const {
    const std::uint32_t taken = atomicAdd(&state_.counters->pages, 1u);
    *static_cast<volatile std::uint32_t*>(page) = taken + 1;
    return taken;
  }
  __device__ __forceinline__ static std::uint32_t wait_for(const std::uint32_t* page) {
    std::uint32_t found = 0;
    while (found == 0) found = *static_cast<const volatile std::uint32_t*>(page);
    return found - 1;
  }

  const State& state_;
  const std::uint32_t each_;
};

/// Whether the kernel stores the keys of a paged first level as they are (`Stored` is `Key`), or narrow.
template <typename Key, typename Stored>
__device__ bool stores_pages(const Counters& counters) {
  return counters.is_paged != 0 && (counters.is_narrow != 0) == (sizeof(Stored) < sizeof(Key));
}

/// Called by one thread: has the first level begin anew, with keys that are counted first and are not narrow.
template <typename Key>
__device__ void begin_anew(const Columns<Key>& columns, const State& state) {
  const Bucket& root = state.buckets[0][0];
  *state.counters = {.buckets = {1, 0}, .spans = {root.spans, 0}, .entries = {root.spans * root.digits, 0}};
  if (columns.checksum != nullptr) *columns.checksum = 0;
}

/// One block: makes the digits of a paged first level buckets of the second, and their pages spans.
template <typename Key, typename Stored>
__global__ void __launch_bounds__(level_threads)
    split_pages(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state) {
  if (!stores_pages<Key, Stored>(*state.counters)) return;
  if (state.counters->are_wide != 0) {
    __syncthreads();
    if (threadIdx.x == 0) begin_anew(columns, state);
    return;
  }
  using Scan = cub::BlockScan<std::uint32_t, level_threads>;
  __shared__ typename Scan::TempStorage scan;
  __shared__ std::uint32_t first_span[most_leading_digits + 1], bucket_of[most_leading_digits];
  constexpr std::uint32_t length = Pages<Stored>::length;
  constexpr bool are_narrow = sizeof(Stored) < sizeof(Key);
  const Bucket& root = state.buckets[0][0];
  const Pages<Stored> pages(state, root.count);
  const unsigned digit = threadIdx.x;
  const std::uint32_t count = digit < root.digits ? state.paged[digit] : 0;
  const std::uint32_t place = are_narrow ? narrow_parts : root.next_place;
  Bucket bucket{};
  if (count > 0) {
    KeySpan keys = keys_of_digit(root, *state.root, digit);
    if (are_narrow) keys = narrow_span(keys, root.low);
    bucket = cut_bucket(keys, count, are_narrow ? state.narrow : state.usual, state);
    bucket.is_paged = true;
    bucket.place = static_cast<std::uint8_t>(place);
    bucket.next_place = static_cast<std::uint8_t>(other_place(place));
    bucket.spans = (count - 1) / length + 1;
  }
  const auto sum_before = [&](std::uint32_t mine, std::uint32_t& total) {
    std::uint32_t before;
    Scan(scan).ExclusiveSum(mine, before, total);
    __syncthreads();
    return before;
  };
  std::uint32_t records, buckets, spans, entries;
  bucket.begin = sum_before(count, records);
  const std::uint32_t index = sum_before(count > 0 ? 1 : 0, buckets);
  const std::uint32_t span = sum_before(bucket.spans, spans);
  bucket.first_entry = sum_before(bucket.spans * bucket.digits, entries);
  if (digit < root.digits) {
    first_span[digit] = span;
    bucket_of[digit] = index;
  }
  if (count > 0) state.buckets[1][index] = bucket;
  if (digit == 0) {
    first_span[root.digits] = spans;
    state.counters->buckets[1] = buckets;
    state.counters->spans[1] = spans;
    state.counters->entries[1] = entries;
    state.counters->least_key = root.low;
  }
  __syncthreads();
  for (unsigned d = threadIdx.x / 32; d < root.digits; d += level_threads / 32) {
    const std::uint32_t first = first_span[d], its = first_span[d + 1] - first;
    if (its == 0) continue;
    const Bucket& whose = state.buckets[1][bucket_of[d]];
    for (std::uint32_t i = threadIdx.x % 32; i < its; i += 32)
      state.spans[1][first + i] = {bucket_of[d], pages.position(d, i), min(length, whose.count - i * length),
                                   whose.first_entry + i};
  }
}

}  // namespace linkwise::cuda::msd
