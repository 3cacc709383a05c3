// The kernels of the levels and of the finish. The first few levels have a kernel for each step; the later ones often
// find nothing to do. Buckets that are left after them, which only unusual keys leave, are processed by one
// cooperative kernel that does all steps.
#pragma once

#include <cooperative_groups.h>

#include "linkwise/primitives/cuda/msd_sort/finish_records.cuh"
#include "linkwise/primitives/cuda/msd_sort/partition.cuh"
#include "linkwise/primitives/cuda/msd_sort/split.cuh"
#include "linkwise/primitives/cuda/msd_sort/stable_partition.cuh"

namespace linkwise::cuda::msd {

/// Whether the kernel takes the keys of this sort.
template <Way way>
__device__ bool takes_keys(const State& state) {
  return way == Way::shared || (state.counters->is_narrow != 0) == (way != Way::usual);
}

// Records are partitioned and sorted stably; keys alone need not be.
template <typename Key, typename Value, Way way>
struct PartitionOf {
  using Memory = StableTileMemory<Key, Value>;
  using Type = StablePartition<Key, Value, way == Way::shared>;
};
template <typename Key, Way way>
struct PartitionOf<Key, NoValue, way> {
  using Memory = PartitionMemory<Key>;
  using Type = SpanPartition<Key, way, Columns<Key>>;
};
template <typename Key, typename Value, int threads, bool is_alone>
struct ItemSortOf {
  using Type = RecordItemSort<Key, Value, threads, is_alone>;
};
template <typename Key, int threads, bool is_alone>
struct ItemSortOf<Key, NoValue, threads, is_alone> {
  using Type = ItemSort<Key, threads, Columns<Key>>;
};

/// The steps of a sort, and its columns as they take them.
template <typename Key, typename Value, Way way>
struct Steps {
  using KeyType = Key;
  using Count = SpanCount<Key, count_threads, Columns<Key>>;
  using LeftCount = SpanCount<Key, level_threads, Columns<Key>>;
  using Partition = typename PartitionOf<Key, Value, way>::Type;
  using PartitionMemory = typename PartitionOf<Key, Value, way>::Memory;
  using UsualItems = typename ItemSortOf<Key, Value, finish_threads, false>::Type;
  using HardItems = typename ItemSortOf<Key, Value, finish_threads, true>::Type;
  using LeftItems = typename ItemSortOf<Key, Value, level_threads, true>::Type;

  __device__ static const auto& columns(const auto& given, const State&) { return given; }
};
template <typename Key, typename Value>
struct Steps<Key, Value, Way::narrow> {
  using KeyType = NarrowKey;
  using Count = SpanCount<NarrowKey, count_threads, NarrowColumns>;
  using LeftCount = SpanCount<NarrowKey, level_threads, NarrowColumns>;
  using Partition = SpanPartition<NarrowKey, Way::usual, NarrowColumns>;
  using PartitionMemory = msd::PartitionMemory<NarrowKey>;
  using UsualItems = ItemSort<NarrowKey, finish_threads, NarrowColumns>;
  using HardItems = UsualItems;
  using LeftItems = ItemSort<NarrowKey, level_threads, NarrowColumns>;

  __device__ static NarrowColumns columns(const Columns<Key>& given, const State& state) { return {given, state}; }
};

/// Shared memory of the kernels.
template <typename Key, typename Value, Way way>
struct LevelMemory {
  using S = Steps<Key, Value, way>;
  union {
    CountMemory<typename S::KeyType, level_threads> count;
    OffsetMemory offset;
    SplitMemory split;
    typename S::PartitionMemory partition;
  };
  Cell table[table_cells];  // the root's
};
template <typename Key, typename Value, Way way>
union LeftMemory {
  LevelMemory<Key, Value, way> level;
  typename Steps<Key, Value, way>::LeftItems::Memory item;
};
template <typename Key, Way way>
struct SpanCountMemory {
  CountMemory<typename Steps<Key, NoValue, way>::KeyType, count_threads> count;
  Cell table[table_cells];  // the root's
};
template <typename Key, typename Value, Way way>
using UsualMemory = typename Steps<Key, Value, way>::UsualItems::Memory;
template <typename Key, typename Value, Way way>
using HardMemory = typename Steps<Key, Value, way>::HardItems::Memory;

__device__ inline void load_table(Cell* table, const State& state) {
  if (state.root->is_tabled == 0) return;
  for (int i = threadIdx.x; i < table_cells; i += static_cast<int>(blockDim.x)) table[i] = state.root->table[i];
  __syncthreads();
}

template <typename Key, Way way>
__global__ void __launch_bounds__(count_threads, count_blocks)
    count_spans(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state, int level) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<SpanCountMemory<Key, way>*>(raw);
  Counters& counters = *state.counters;
  const int now = level % 2;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    counters.spans_taken = counters.doubtful_spans = 0;
    if (level > 0) counters.buckets[1 - now] = counters.spans[1 - now] = counters.entries[1 - now] = 0;
  }
  if (blockIdx.x >= counters.spans[now] || reads_narrow(state, now) != (way == Way::narrow)) return;
  load_table(memory.table, state);
  using S = Steps<Key, NoValue, way>;
  const auto& keys = S::columns(columns, state);
  typename S::Count(memory.count, keys, state, memory.table).run(now, counters.spans[now]);
}

static __global__ void __launch_bounds__(level_threads) sum_counters(const __grid_constant__ State state, int now) {
  __shared__ OffsetMemory memory;
  sum_entries(memory, state.counters->entries[now], state);
}
static __global__ void __launch_bounds__(level_threads) scan_counters(const __grid_constant__ State state, int now) {
  __shared__ OffsetMemory memory;
  scan_entries(memory, state.counters->entries[now], state);
}

template <typename Key>
__global__ void __launch_bounds__(level_threads) split_buckets(const __grid_constant__ State state, int now) {
  __shared__ SplitMemory memory;
  __shared__ Cell table[table_cells];
  const std::uint32_t buckets = state.counters->buckets[now];
  if (blockIdx.x >= buckets) return;
  load_table(table, state);
  for (std::uint32_t i = blockIdx.x; i < buckets; i += gridDim.x)
    split_bucket<Key>(memory, state.buckets[now][i], table, 1 - now, state);
}

template <typename Key, typename Value, Way way>
__global__ void __launch_bounds__(level_threads, 1)
    partition_spans(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state,
                    int now) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<LevelMemory<Key, Value, way>*>(raw);
  if (blockIdx.x >= state.counters->spans[now] || !takes_keys<way>(state)) return;
  load_table(memory.table, state);
  using S = Steps<Key, Value, way>;
  const auto& records = S::columns(columns, state);
  typename S::Partition(memory.partition, records, state, memory.table).run(now, state.counters->spans[now]);
}

/// All steps of all remaining levels, and their items.
template <typename Key, typename Value, Way way>
__global__ void __launch_bounds__(level_threads, 1)
    sort_what_is_left(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state,
                      int now) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<LeftMemory<Key, Value, way>*>(raw);
  auto& level = memory.level;
  if (!takes_keys<way>(state)) return;
  using S = Steps<Key, Value, way>;
  const auto& records = S::columns(columns, state);
  const auto grid = cooperative_groups::this_grid();
  for (;; now = 1 - now) {
    const std::uint32_t spans = state.counters->spans[now], entries = state.counters->entries[now];
    if (spans == 0) return;
    if (grid.thread_rank() == 0) {
      state.counters->buckets[1 - now] = state.counters->spans[1 - now] = state.counters->entries[1 - now] = 0;
      state.counters->items = state.counters->spans_taken = state.counters->doubtful_spans = 0;
    }
    load_table(level.table, state);
    typename S::LeftCount(level.count, records, state, level.table).run(now, spans);
    grid.sync();
    sum_entries(level.offset, entries, state);
    grid.sync();
    scan_entries(level.offset, entries, state);
    grid.sync();
    for (std::uint32_t i = blockIdx.x; i < state.counters->buckets[now]; i += gridDim.x)
      split_bucket<typename S::KeyType>(level.split, state.buckets[now][i], level.table, 1 - now, state);
    typename S::Partition(level.partition, records, state, level.table).run(now, spans);
    bulk::order_writes();
    grid.sync();
    typename S::LeftItems sort(memory.item, records);
    for (std::uint32_t i = blockIdx.x; i < state.counters->items; i += gridDim.x) {
      sort.sort_any(state.items[i]);
      __syncthreads();
    }
    sort.end();
    grid.sync();
  }
}

/// The items, but for those with long bins, which it lists.
template <typename Key, typename Value, Way way>
__global__ void __launch_bounds__(finish_threads, finish_blocks)
    finish(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  if (!takes_keys<way>(state)) return;
  using S = Steps<Key, Value, way>;
  const auto& records = S::columns(columns, state);
  typename S::UsualItems sort(*reinterpret_cast<UsualMemory<Key, Value, way>*>(raw), records);
  const std::uint32_t items = state.counters->items;
  const auto item_at = [&](std::uint32_t i) { return i < items ? state.items[i] : Item{}; };
  std::uint32_t i = blockIdx.x, next_i = i + gridDim.x;
  Item item = item_at(i), next = item_at(next_i);
  sort.begin(item);
  __syncthreads();
  while (i < items) {
    const std::uint32_t later_i = next_i + gridDim.x;
    const Item later = item_at(later_i);
    if (!sort.sort_evenly_spread(item, next) && threadIdx.x == 0)
      state.hard_items[atomicAdd(&state.counters->hard_items, 1u)] = i;
    __syncthreads();
    item = next;
    next = later;
    i = next_i;
    next_i = later_i;
  }
  sort.end();
}

template <typename Key, typename Value, Way way>
__global__ void __launch_bounds__(finish_threads, 1)
    finish_hard(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  if (!takes_keys<way>(state)) return;
  using S = Steps<Key, Value, way>;
  const auto& records = S::columns(columns, state);
  typename S::HardItems sort(*reinterpret_cast<HardMemory<Key, Value, way>*>(raw), records);
  const std::uint32_t items = state.counters->hard_items;
  for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
    sort.sort_any(state.items[state.hard_items[i]]);
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
