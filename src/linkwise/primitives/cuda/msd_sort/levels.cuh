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

// Records are partitioned and sorted stably; keys alone need not be.
template <typename Key, typename Value, bool is_shared = false>
struct Partitions {
  using Memory = StableTileMemory<Key, Value>;
  using Type = StablePartition<Key, Value, is_shared>;
};
template <typename Key, bool is_shared>
struct Partitions<Key, NoValue, is_shared> {
  using Memory = PartitionMemory<Key>;
  using Type = SpanPartition<Key, is_shared>;
};
template <typename Key, typename Value, int threads, bool is_alone>
using ItemSortOf =
    std::conditional_t<has_bytes<Value>, RecordItemSort<Key, Value, threads, is_alone>, ItemSort<Key, threads>>;
template <typename Key, typename Value>
using UsualItemSort = ItemSortOf<Key, Value, finish_threads, false>;
template <typename Key, typename Value>
using HardItemSort = ItemSortOf<Key, Value, finish_threads, true>;
template <typename Key, typename Value>
using LeftItemSort = ItemSortOf<Key, Value, level_threads, true>;

template <typename Key, typename Value>
struct LevelMemory {
  union {
    CountMemory<Key, level_threads> count;
    OffsetMemory offset;
    SplitMemory split;
    typename Partitions<Key, Value>::Memory partition;
  };
  Cell table[table_cells];  // the root's
};
template <typename Key, typename Value>
union LeftMemory {
  LevelMemory<Key, Value> level;
  typename LeftItemSort<Key, Value>::Memory item;
};

__device__ inline void load_table(Cell* table, const State& state) {
  if (state.root->is_tabled == 0) return;
  for (int i = threadIdx.x; i < table_cells; i += static_cast<int>(blockDim.x)) table[i] = state.root->table[i];
  __syncthreads();
}

template <typename Key>
struct SpanCountMemory {
  CountMemory<Key, count_threads> count;
  Cell table[table_cells];  // the root's
};

template <typename Key>
__global__ void __launch_bounds__(count_threads, count_blocks)
    count_spans(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state, int now) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<SpanCountMemory<Key>*>(raw);
  Counters& counters = *state.counters;
  if (blockIdx.x == 0 && threadIdx.x == 0)
    counters.buckets[1 - now] = counters.spans[1 - now] = counters.entries[1 - now] = counters.spans_taken =
        counters.doubtful_spans = 0;
  if (blockIdx.x >= counters.spans[now]) return;
  load_table(memory.table, state);
  SpanCount<Key, count_threads>(memory.count, columns, state, memory.table).run(now, counters.spans[now]);
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

/// `is_shared`: of a first level that several GPUs share.
template <typename Key, typename Value, bool is_shared = false>
__global__ void __launch_bounds__(level_threads, 1)
    partition_spans(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state,
                    int now) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<LevelMemory<Key, Value>*>(raw);
  if (blockIdx.x >= state.counters->spans[now]) return;
  load_table(memory.table, state);
  typename Partitions<Key, Value, is_shared>::Type(memory.partition, columns, state, memory.table)
      .run(now, state.counters->spans[now]);
}

/// All steps of all remaining levels, and their items.
template <typename Key, typename Value>
__global__ void __launch_bounds__(level_threads, 1)
    sort_what_is_left(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state,
                      int now) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<LeftMemory<Key, Value>*>(raw);
  auto& level = memory.level;
  const auto grid = cooperative_groups::this_grid();
  for (;; now = 1 - now) {
    const std::uint32_t spans = state.counters->spans[now], entries = state.counters->entries[now];
    if (spans == 0) return;
    if (grid.thread_rank() == 0) {
      state.counters->buckets[1 - now] = state.counters->spans[1 - now] = state.counters->entries[1 - now] = 0;
      state.counters->items = state.counters->spans_taken = state.counters->doubtful_spans = 0;
    }
    load_table(level.table, state);
    SpanCount<Key, level_threads>(level.count, columns, state, level.table).run(now, spans);
    grid.sync();
    sum_entries(level.offset, entries, state);
    grid.sync();
    scan_entries(level.offset, entries, state);
    grid.sync();
    for (std::uint32_t i = blockIdx.x; i < state.counters->buckets[now]; i += gridDim.x)
      split_bucket<Key>(level.split, state.buckets[now][i], level.table, 1 - now, state);
    typename Partitions<Key, Value>::Type(level.partition, columns, state, level.table).run(now, spans);
    bulk::order_writes();
    grid.sync();
    LeftItemSort<Key, Value> sort(memory.item, columns);
    for (std::uint32_t i = blockIdx.x; i < state.counters->items; i += gridDim.x) {
      sort.sort_any(state.items[i]);
      __syncthreads();
    }
    sort.end();
    grid.sync();
  }
}

template <typename Key, typename Value>
__global__ void __launch_bounds__(finish_threads, finish_blocks)
    finish(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  using Sort = UsualItemSort<Key, Value>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
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

template <typename Key, typename Value>
__global__ void __launch_bounds__(finish_threads, 1)
    finish_hard(const __grid_constant__ ColumnsOf<Key, Value> columns, const __grid_constant__ State state) {
  extern __shared__ __align__(128) unsigned char raw[];
  using Sort = HardItemSort<Key, Value>;
  Sort sort(*reinterpret_cast<typename Sort::Memory*>(raw), columns);
  const std::uint32_t items = state.counters->hard_items;
  for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
    sort.sort_any(state.items[state.hard_items[i]]);
    __syncthreads();
  }
}

}  // namespace linkwise::cuda::msd
