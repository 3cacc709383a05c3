// The first level's digits, from a sample of the keys.
#pragma once

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"
#include "linkwise/primitives/cuda/msd_sort/extent.cuh"
#include "linkwise/primitives/cuda/msd_sort/narrow.cuh"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise::cuda::msd {

constexpr int sample_threads = 1024;
constexpr int samples_per_thread = 16;
constexpr int samples = sample_threads * samples_per_thread;
constexpr int compared_per_thread = 4;  // of the samples
constexpr int compared = sample_threads * compared_per_thread;
constexpr std::uint64_t many_records = 100'000'000;  // from here, the compared samples tell too little
constexpr int slot_bits = 13, slot_round_bits = 2;   // half of the slots are taken in a round
constexpr unsigned slots = 1 << slot_bits;
using SampleSort = cub::BlockRadixSort<std::uint32_t, sample_threads, compared_per_thread>;

struct SampleMemory {
  union {
    typename cub::BlockReduce<std::uint64_t, sample_threads>::TempStorage reduce;
    typename cub::BlockScan<unsigned, sample_threads>::TempStorage scan;
  };
  std::uint64_t least, greatest;
  union {
    unsigned cells[table_cells];
    std::uint32_t slots[msd::slots];
    typename SampleSort::TempStorage sort;
    std::uint32_t sorted[compared];
  };
};

struct Least {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a < b ? a : b; }
};
struct Greatest {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a < b ? b : a; }
};

/// Gives each cell digits by its share of the sample: several to a heavy cell, one in common to light neighbours.
__device__ inline void fill_table(SampleMemory& memory, Root& root, unsigned digits) {
  constexpr int cells = table_cells / sample_threads;
  unsigned weight[cells], before[cells], total = 0;
  for (int i = 0; i < cells; ++i) weight[i] = memory.cells[threadIdx.x * cells + i];
  __syncthreads();
  cub::BlockScan<unsigned, sample_threads>(memory.scan).ExclusiveSum(weight, before, total);
  const auto digit_of = [&](unsigned sum) { return static_cast<unsigned>(std::uint64_t{sum} * digits / total); };
  for (int i = 0; i < cells; ++i) {
    const unsigned first = min(digit_of(before[i]), digits - 1), next = digit_of(before[i] + weight[i]);
    root.table[threadIdx.x * cells + i] = Cell::of(first, next - first, root.cell_shift);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < table_cells; i += sample_threads) {
    const Cell cell = root.table[i];
    const unsigned taken = i == 0 ? 0 : root.table[i - 1].first() + root.table[i - 1].digits();
    const std::uint64_t low = static_cast<std::uint64_t>(i) << root.cell_shift;
    for (unsigned digit = taken; digit <= cell.first(); ++digit) root.digit_low[digit] = low << root.dropped;
    for (unsigned j = 1; j < cell.digits(); ++j)
      root.digit_low[cell.first() + j] = (low + cell.distance(j, root.cell_shift)) << root.dropped;
    if (i + 1 < table_cells) continue;
    for (unsigned digit = cell.first() + cell.digits(); digit <= digits; ++digit)
      root.digit_low[digit] = root.window + 1;
  }
}

__device__ inline void add_of_warp(std::uint32_t& total, unsigned mine) {
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, mine);
}

/// Counts the samples in digits that cover at least four keys, and those in the first quarter of such a digit.
template <typename Key>
__device__ void measure_spread(const Root& root, const Bucket& bucket, const Key (&sample)[samples_per_thread],
                               KeySpread& spread) {
  unsigned in_digits = 0, in_first_quarter = 0;
#pragma unroll
  for (int i = 0; i < samples_per_thread; ++i) {
    const std::uint64_t above = sample[i] - root.low;
    if (root.is_tabled != 0) {
      const auto distance = static_cast<std::uint32_t>(above >> root.dropped);
      const Cell cell = root.table[distance >> root.cell_shift];
      const std::uint32_t within = distance & ((1u << root.cell_shift) - 1);
      const unsigned digit = cell.digit(within, root.cell_shift) - cell.first();
      const std::uint64_t begin = cell.distance(digit, root.cell_shift),
                          end = cell.distance(digit + 1, root.cell_shift);
      in_digits += end - begin >= 4 ? 1 : 0;
      in_first_quarter += end - begin >= 4 && within - begin < (end - begin) / 4 ? 1 : 0;
    } else if (bucket.scale <= 1u << (scaled_digit_bits - 2)) {
      ++in_digits;
      in_first_quarter += (static_cast<std::uint32_t>(above >> bucket.shift) << 1) * bucket.scale < 1u << 30 ? 1 : 0;
    }
  }
  add_of_warp(spread.in_digits, in_digits);
  add_of_warp(spread.in_first_quarter, in_first_quarter);
}

/// Among some of the samples, in sorted order, counts neighbours that are equal, and neighbours that differ but stay
/// in one part if each of the root's digits is cut evenly. Only 32 bits of the keys are compared.
template <typename Key>
__device__ void measure_crowd(SampleMemory& memory, const Root& root, unsigned digits, unsigned cuts,
                              const Key (&sample)[samples_per_thread], KeySpread& spread) {
  const std::uint32_t dropped = root.dropped;
  std::uint32_t above[compared_per_thread];
#pragma unroll
  for (int i = 0; i < compared_per_thread; ++i) {
    // Takes some from each region of the input; if it is sorted, neighbouring samples would otherwise lie too close.
    const unsigned turn = threadIdx.x % (samples_per_thread / compared_per_thread);
    Key key = sample[i * (samples_per_thread / compared_per_thread)];
#pragma unroll
    for (unsigned other = 1; other < samples_per_thread / compared_per_thread; ++other)
      if (turn == other) key = sample[i * (samples_per_thread / compared_per_thread) + other];
    above[i] = static_cast<std::uint32_t>((key - root.low) >> dropped);
  }
  __syncthreads();
  SampleSort(memory.sort).Sort(above);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < compared_per_thread; ++i) memory.sorted[threadIdx.x * compared_per_thread + i] = above[i];
  __syncthreads();
  const auto part_of = [&](std::uint32_t sorted) {
    const std::uint64_t distance = std::uint64_t{sorted} << dropped;
    unsigned low = 0, high = digits;  // the last digit that does not begin after the key
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (root.digit_low[middle] <= distance ? low : high) = middle;
    }
    const auto reach = static_cast<double>(root.digit_low[low + 1] - root.digit_low[low]);
    const auto cut = static_cast<unsigned>(static_cast<double>(distance - root.digit_low[low]) / reach * cuts);
    return low * cuts + cut;
  };
  unsigned equal = 0, crowded = 0;
  for (int i = 0; i < compared_per_thread; ++i) {
    const int at = static_cast<int>(threadIdx.x) * compared_per_thread + i;
    if (at + 1 == compared) continue;
    if (memory.sorted[at] == memory.sorted[at + 1]) ++equal;
    else if (part_of(memory.sorted[at]) == part_of(memory.sorted[at + 1])) ++crowded;
  }
  add_of_warp(spread.equal, equal);
  add_of_warp(spread.crowded, crowded);
  if (threadIdx.x != 0) return;
  spread.compared = compared;
  // How many would share a part with the next if they were uniformly distributed.
  const float share = static_cast<float>(compared) / static_cast<float>(digits * cuts);
  spread.crowded_if_even = static_cast<std::uint32_t>(compared * (1 - (1 - __expf(-share)) / share));
}

/// Counts the samples that equal one before, of all samples, with a hash table that takes a share of the keys in each
/// round. Only 32 bits of the keys are compared.
template <typename Key>
__device__ void count_repeated(SampleMemory& memory, const Root& root, const Key (&sample)[samples_per_thread],
                               KeySpread& spread) {
  constexpr std::uint32_t none = ~0u;
  const std::uint64_t low = root.low;
  const std::uint32_t dropped = root.dropped;
  unsigned repeated = 0;
#pragma unroll 1
  for (unsigned round = 0; round < 1u << slot_round_bits; ++round) {
    __syncthreads();
    for (unsigned slot = threadIdx.x; slot < slots; slot += sample_threads) memory.slots[slot] = none;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < samples_per_thread; ++i) {
      const std::uint32_t key = min(static_cast<std::uint32_t>((sample[i] - low) >> dropped), none - 1);
      const std::uint32_t hash = key * 0x9e3779b1u;  // its first bits are the best
      if (hash >> (32 - slot_round_bits) != round) continue;
      for (unsigned slot = hash >> (32 - slot_round_bits - slot_bits);; ++slot) {
        const std::uint32_t found = atomicCAS(&memory.slots[slot % slots], none, key);
        if (found == key) ++repeated;
        if (found == key || found == none) break;
      }
    }
  }
  add_of_warp(spread.repeated, repeated);
  if (threadIdx.x == 0) spread.sampled = samples;
}

/// Whether a digit has a third of the samples. Its keys' ranks come from atomics at one address: those that a paged
/// level needs to count a tile can cost more than counting all keys before. And where all its keys are equal, they are
/// done after a level that is not paged.
template <typename Key>
__device__ bool has_heavy_digit(SampleMemory& memory, const Root& root, const Bucket& bucket,
                                const Key (&sample)[samples_per_thread]) {
  __syncthreads();
  for (int i = threadIdx.x; i < most_leading_digits; i += sample_threads) memory.cells[i] = 0;
  __syncthreads();
  const Digits<Key> digit(bucket, root, root.table);
#pragma unroll
  for (int i = 0; i < samples_per_thread; ++i) atomicAdd(&memory.cells[digit(sample[i])], 1u);
  __syncthreads();
  bool is_heavy = false;
  for (int i = threadIdx.x; i < most_leading_digits; i += sample_threads) is_heavy |= memory.cells[i] > samples / 3;
  return __syncthreads_or(is_heavy) != 0;
}

/// Keys from which the sample is taken: all of them, or a larger sample of all that several GPUs took.
struct Sampled {
  RawSegments keys;
  std::uint64_t count;
  std::uint64_t total;  ///< keys to sort

  template <typename Key>
  [[nodiscard]] __device__ Key at(std::uint64_t i) const {
    int segment = 0;
    while (i >= keys.length[segment]) i -= keys.length[segment++];
    return static_cast<const Key*>(keys.keys[segment])[i];
  }
};
inline Sampled sampled(const RawSegments& keys, std::uint64_t total) {
  Sampled from{keys, 0, total};
  for (int segment = 0; segment < keys.count; ++segment) from.count += keys.length[segment];
  return from;
}

/// Launched as one block: guesses the Root from a sample, and makes the `count` keys of the input the first bucket.
/// Every GPU guesses the same from the same keys.
template <typename Key>
__global__ void __launch_bounds__(sample_threads)
    look_at_sample(const __grid_constant__ Columns<Key> columns, const __grid_constant__ Sampled from,
                   std::uint32_t count, WantedDigits usual, WantedDigits narrow, Place next_place,
                   const __grid_constant__ State state, KeySpread* spread) {
  __shared__ SampleMemory memory;
  Key sample[samples_per_thread];
  Key least = static_cast<Key>(~Key{0}), greatest = 0;
#pragma unroll
  for (int i = 0; i < samples_per_thread; ++i) {
    const std::uint64_t stratum = static_cast<std::uint64_t>(i) * sample_threads + threadIdx.x;
    const std::uint64_t begin = stratum * from.count / samples, end = (stratum + 1) * from.count / samples;
    sample[i] = from.at<Key>(begin + __umul64hi(mix64(stratum), end - begin));
  }
  columns.encode(sample, in_input);
#pragma unroll
  for (int i = 0; i < samples_per_thread; ++i) {
    least = min(least, sample[i]);
    greatest = max(greatest, sample[i]);
  }
  using Reduce = cub::BlockReduce<std::uint64_t, sample_threads>;
  const std::uint64_t all_least = Reduce(memory.reduce).Reduce(least, Least{});
  __syncthreads();
  const std::uint64_t all_greatest = Reduce(memory.reduce).Reduce(greatest, Greatest{});
  if (threadIdx.x == 0) {
    memory.least = all_least;
    memory.greatest = all_greatest;
  }
  for (int i = threadIdx.x; i < table_cells; i += sample_threads) memory.cells[i] = 0;
  __syncthreads();
  // A little more than the sample's range, so that few keys lie beyond it.
  constexpr std::uint64_t greatest_key = static_cast<Key>(~Key{0});
  const std::uint64_t margin = (memory.greatest - memory.least) / 256 + 1;
  const std::uint64_t low = memory.least - min(margin, memory.least);
  const std::uint64_t window = memory.greatest + min(margin, greatest_key - memory.greatest) - low;
  const int window_bits = bit_width(window), cell_bits = min(table_bits, window_bits);
  const bool is_narrow = may_be_narrow(state) && fits_narrow_key(window);
  const WantedDigits wanted = is_narrow ? narrow : usual;
  const Fit fit = is_narrow ? state.narrow : state.usual;
  Bucket bucket{};
  cut_evenly(bucket, window, wanted.digits);
  const unsigned even_digits = bucket.digits;
  for (int i = 0; i < samples_per_thread; ++i)
    atomicAdd(&memory.cells[scaled_digit(static_cast<std::uint32_t>((sample[i] - low) >> bucket.shift), bucket.scale)],
              1u);
  __syncthreads();
  // Even if the next level can cut every digit into items, as far as so few samples tell.
  const float share = static_cast<float>(samples) / static_cast<float>(even_digits);
  const float cut = static_cast<float>(planned_fill) * static_cast<float>(fit.capacity * state.max_digits);
  const float most = max(min(4 * share + 16, cut / static_cast<float>(from.total) * samples), share + 5 * sqrtf(share));
  bool uneven = false;
  for (unsigned i = threadIdx.x; i < even_digits; i += sample_threads)
    uneven |= static_cast<float>(memory.cells[i]) > most;
  uneven = __syncthreads_or(uneven) != 0 && cell_bits == table_bits;
  // Cells have fewer digits than their share, and are denser in places than elsewhere.
  const unsigned digits = uneven ? min(even_digits + even_digits / 8, unsigned{root_digits}) : even_digits;
  Root& root = *state.root;
  const std::uint32_t tile = state.usual.tile, spans = (count + tile - 1) / tile;
  if (threadIdx.x == 0) {
    root.low = low;
    root.window = window;
    root.dropped = static_cast<std::uint32_t>(max(window_bits - 32, 0));
    root.cell_shift = static_cast<std::uint32_t>(window_bits - cell_bits) - root.dropped;
    root.is_tabled = uneven ? 1 : 0;
    bucket.low = low;
    bucket.reach = static_cast<Key>(~Key{0});
    bucket.least = ~std::uint64_t{0};
    bucket.count = count;
    bucket.spans = spans;
    bucket.digits = digits + 2;
    bucket.place = in_input;
    bucket.next_place = next_place;
    bucket.is_root = true;
    state.buckets[0][0] = bucket;
  }
  for (std::uint32_t i = threadIdx.x; i < spans; i += sample_threads)
    state.spans[0][i] = {0, i * tile, min(tile, count - i * tile), i};
  if (threadIdx.x == 0) {
    *spread = {};
    spread->is_narrow = is_narrow ? 1 : 0;
  }
  __syncthreads();
  if (uneven) {
    for (int i = threadIdx.x; i < table_cells; i += sample_threads) memory.cells[i] = 0;
    __syncthreads();
    for (int i = 0; i < samples_per_thread; ++i)
      atomicAdd(&memory.cells[static_cast<unsigned>((sample[i] - low) >> (window_bits - cell_bits))], 1u);
    __syncthreads();
    fill_table(memory, root, digits);
  } else
    for (unsigned i = threadIdx.x; i <= digits; i += sample_threads) root.digit_low[i] = first_distance(bucket, i);
  __syncthreads();
  const bool is_paged = state.pages > 0 && !has_heavy_digit(memory, root, state.buckets[0][0], sample);
  if (threadIdx.x == 0) {
    // If the first level is paged, the kernels that count it and partition it otherwise find no bucket.
    const std::uint32_t buckets = is_paged ? 0 : 1;
    *state.counters = {.buckets = {buckets, 0},
                       .spans = {buckets * spans, 0},
                       .entries = {buckets * spans * (digits + 2), 0},
                       .is_narrow = is_narrow,
                       .is_paged = is_paged};
  }
  measure_spread(root, bucket, sample, *spread);
  measure_crowd(memory, root, digits, wanted.cuts, sample, *spread);
  if (from.total >= many_records) count_repeated(memory, root, sample, *spread);
}

}  // namespace linkwise::cuda::msd
