// Turns a bucket's parts into items for the last kernel, or buckets of the next level.
#pragma once

#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/partition.cuh"
#include "linkwise/primitives/cuda/msd_sort/root.cuh"

namespace linkwise::cuda::msd {

/// Reserves places at the end of a list, and returns the first of them. The order of the blocks is arbitrary.
__device__ inline std::uint32_t append(std::uint32_t& counter, std::uint32_t items) {
  return atomicAdd(&counter, items);
}

/// Makes items of records with equal keys, which only move to the result, or are decoded there.
__device__ inline void finish_equal(std::uint32_t begin, std::uint32_t count, std::uint32_t place, const State& state) {
  const std::uint32_t pieces = (count + copied_at_once - 1) / copied_at_once;
  const std::uint32_t first = append(state.counters->items, pieces);
  for (std::uint32_t i = 0; i < pieces; ++i)
    state.items[first + i] = {0,     0,   begin + i * copied_at_once, min(copied_at_once, count - i * copied_at_once),
                              place, true};
}

/// A bucket with as many digits as make parts of about the planned fill, but never so few that the level leaves nearly
/// all keys to the one after it.
__device__ inline Bucket cut_bucket(KeySpan keys, std::uint32_t count, Fit fit, const State& state) {
  Bucket bucket{};
  bucket.low = keys.low;
  bucket.reach = keys.reach;
  bucket.least = ~std::uint64_t{0};
  bucket.count = count;
  const auto fill = static_cast<std::uint32_t>(planned_fill * fit.capacity);
  cut_evenly(bucket, keys.reach, min(max(count / fill + 1, 16u), state.max_digits));
  return bucket;
}

/// Adds a bucket to the next level.
__device__ inline void add_bucket(int next, KeySpan keys, std::uint32_t begin, std::uint32_t count, std::uint32_t place,
                                  std::uint32_t next_place, Fit fit, const State& state) {
  if (keys.reach == 0) return finish_equal(begin, count, place, state);
  Bucket bucket = cut_bucket(keys, count, fit, state);
  bucket.begin = begin;
  bucket.spans = (count + fit.tile - 1) / fit.tile;
  bucket.first_entry = append(state.counters->entries[next], bucket.spans * bucket.digits);
  bucket.place = static_cast<std::uint8_t>(place);
  bucket.next_place = static_cast<std::uint8_t>(next_place);
  const std::uint32_t index = append(state.counters->buckets[next], 1);
  state.buckets[next][index] = bucket;
  const std::uint32_t first = append(state.counters->spans[next], bucket.spans);
  const std::uint32_t each = (count - 1) / bucket.spans + 1;
  for (std::uint32_t i = 0; i < bucket.spans; ++i)
    state.spans[next][first + i] = {index, begin + i * each, min(each, count - i * each), bucket.first_entry + i};
}

struct Latest {
  __device__ int operator()(int a, int b) const { return a < b ? b : a; }
};

struct SplitMemory {
  union {
    typename LevelScan::TempStorage scan;
    typename cub::BlockScan<int, level_threads>::TempStorage latest;
  };
  std::uint32_t begin[most_digits + 1];  // of each digit's part, in the bucket
  std::uint32_t starts[most_digits + 1];
  std::uint16_t last[most_digits];  // last digit of each group
};

/// Called by a whole block: whether the parts' keys are narrow. The first level decides it for all that follow.
__device__ inline bool decide_narrow(const Bucket& bucket, bool is_divided, const State& state) {
  const bool are_narrow = may_be_narrow(state) && state.counters->is_narrow != 0;
  if (!bucket.is_root) return are_narrow;
  const bool become_narrow = are_narrow && is_divided && fits_narrow_key(bucket.greatest - bucket.least);
  __syncthreads();
  if (threadIdx.x == 0) {
    state.counters->is_narrow = become_narrow ? 1 : 0;
    state.counters->least_key = bucket.least;
  }
  return become_narrow;
}

/// Called by a whole block. Parts of up to half an item's capacity form a group with neighbours that begin in the
/// same half capacity: so a group has at most a whole capacity.
template <typename Key>
__device__ void split_bucket(SplitMemory& memory, const Bucket& bucket, const Cell* table, int next,
                             const State& state) {
  const bool divides = is_moved(bucket, Digits<Key>(bucket, *state.root, table, true));
  const bool is_narrow = decide_narrow(bucket, divides, state);
  const Fit fit = is_narrow ? state.narrow : state.usual;
  if (!divides) {
    if (threadIdx.x == 0)
      add_bucket(next, {bucket.least, bucket.greatest - bucket.least}, bucket.begin, bucket.count, bucket.place,
                 bucket.next_place, fit, state);
    __syncthreads();
    return;
  }
  // Narrow keys of the parts are distances from the bucket's least key, which has been subtracted once.
  const bool narrows = is_narrow && bucket.is_root;
  const std::uint64_t origin = narrows ? bucket.least : 0;
  const std::uint32_t place = narrows ? narrow_parts : bucket.next_place;
  const std::uint32_t base = state.entries[bucket.first_entry];
  for (unsigned i = threadIdx.x; i < bucket.digits; i += level_threads)
    memory.begin[i] = state.entries[bucket.first_entry + i * bucket.spans] - base;
  if (threadIdx.x == 0) memory.begin[bucket.digits] = bucket.count;
  __syncthreads();
  constexpr int each = (most_digits + level_threads - 1) / level_threads;
  const std::uint32_t half = fit.capacity / 2;
  const auto size_of = [&](int d) { return memory.begin[d + 1] - memory.begin[d]; };
  int filled[each], before[each];
  for (int i = 0; i < each; ++i) {
    const int d = static_cast<int>(threadIdx.x) * each + i;
    filled[i] = d < static_cast<int>(bucket.digits) && size_of(d) > 0 ? d : -1;
  }
  cub::BlockScan<int, level_threads>(memory.latest).ExclusiveScan(filled, before, -1, Latest{});
  __syncthreads();
  std::uint32_t starts[each], rank[each], total;
  for (int i = 0; i < each; ++i) {
    const int d = filled[i], p = before[i];
    starts[i] =
        d >= 0 && (p < 0 || size_of(d) > half || size_of(p) > half || memory.begin[d] / half != memory.begin[p] / half);
  }
  LevelScan(memory.scan).ExclusiveSum(starts, rank, total);
  for (int i = 0; i < each; ++i)
    if (starts[i] != 0) {
      memory.starts[rank[i]] = memory.begin[filled[i]];
      if (rank[i] > 0) memory.last[rank[i] - 1] = static_cast<std::uint16_t>(before[i]);
    }
  if (threadIdx.x == 0) {
    memory.starts[total] = bucket.count;
    memory.last[total - 1] = static_cast<std::uint16_t>(bucket.digits - 1);
  }
  __syncthreads();
  for (int i = 0; i < each; ++i) {
    if (starts[i] == 0) continue;
    const std::uint32_t begin = memory.starts[rank[i]], count = memory.starts[rank[i] + 1] - begin;
    // At most from the least key of the first digit to the greatest of the last.
    const KeySpan first = keys_of_digit(bucket, *state.root, static_cast<unsigned>(filled[i]));
    const KeySpan last = keys_of_digit(bucket, *state.root, memory.last[rank[i]]);
    const std::uint64_t low = max(first.low, bucket.least), high = min(last.low + last.reach, bucket.greatest);
    const KeySpan keys{low - origin, high - low};
    if (count > fit.capacity)
      add_bucket(next, keys, bucket.begin + begin, count, place, other_place(place), fit, state);
    else
      state.items[append(state.counters->items, 1)] = {keys.low, keys.reach, bucket.begin + begin, count, place, false};
  }
  __syncthreads();
}

}  // namespace linkwise::cuda::msd
