// Joins the parts of both sides: lists the blocks' tasks, counts the rows of the result, and writes them.
#pragma once

#include "linkwise/primitives/cuda/hash_join/table.cuh"
#include "linkwise/primitives/cuda/match_totals.cuh"

namespace linkwise::cuda::hash {

__global__ void list_tasks_kernel(const RawHashTasks list) {
  for (std::uint64_t part = global_thread(); part < list.parts; part += grid_threads()) {
    const std::uint64_t probing = list.probe.begin_of(part + 1) - list.probe.begin_of(part);
    const std::uint64_t build = list.build.begin_of(part + 1) - list.build.begin_of(part);
    if ((probing == 0 && !(list.without_probe && build > 0)) || (build == 0 && !list.without_build)) continue;
    const auto chunks =
        static_cast<std::uint32_t>(max((probing + list.task_rows - 1) / list.task_rows, std::uint64_t{1}));
    const std::uint32_t first = atomicAdd(list.count, chunks);
    for (std::uint32_t c = 0; c < chunks; ++c) list.tasks[first + c] = {static_cast<std::uint32_t>(part), c};
  }
}

/// A block's work: joins a chunk of the probe side with its part of the build side, as many build rows at a time as
/// the hash table holds.
template <typename Key>
class Matching {
 public:
  __device__ Matching(const RawHashMatch& match, const HashTableShape& shape, unsigned char* memory)
      : table(memory, shape), match_(match), task_(match.tasks[blockIdx.x]) {
    const std::uint64_t part_end = match.probe.begin_of(task_.part + 1);
    probe_begin = min(match.probe.begin_of(task_.part) + std::uint64_t{task_.chunk} * match.task_rows, part_end);
    probe_end = min(probe_begin + match.task_rows, part_end);
    matched_ = reinterpret_cast<unsigned*>(memory + shape.table_bytes(sizeof(Key)));
    if (wants_matched())
      for (unsigned w = threadIdx.x; w < match.task_rows / 32; w += match_threads) matched_[w] = 0;
  }

  [[nodiscard]] __device__ bool wants_matched() const { return match_.emission != Emission::pairs; }

  /// Calls body(row, hash, value, chain) for each probe row and each table. Whole warps take part: rows past the end
  /// of the chunk have an empty chain.
  template <typename Body>
  __device__ void run(bool wants_values, const Body& body) {
    const auto* const build = static_cast<const Key*>(match_.build.keys);
    const std::uint64_t build_begin = match_.build.begin_of(task_.part);
    const std::uint64_t build_end = match_.build.begin_of(task_.part + 1);
    std::uint64_t probe_sum = 0, build_sum = 0;
    const bool sums = match_.checksums != nullptr,
               keeps_probe_values = wants_values || (sums && match_.probe_moved != ValueWidth::none);
    std::uint64_t first = build_begin;
    do {
      const auto rows = static_cast<unsigned>(min(build_end - first, std::uint64_t{match_.table_rows}));
      const bool sums_build = sums && task_.chunk == 0, sums_probe = sums && first == build_begin;
      __syncthreads();
      table.clear();
      __syncthreads();
      for (unsigned r = threadIdx.x; r < rows; r += match_threads) {
        const Key hash = match_.build.hash(build[first + r]);
        table.insert(r, hash);
        const bool keeps_value = table.keeps_values() || (sums_build && match_.build_moved != ValueWidth::none);
        const std::uint64_t value = keeps_value ? match_.build.value(first + r) : 0;
        if (table.keeps_values()) table.keep(r, value);
        if (sums_build) build_sum += match_.seen(hash, value, match_.build_moved, task_.part);
      }
      __syncthreads();
      Batch now, next;
      load(now, probe_begin, keeps_probe_values);
      for (std::uint64_t base = probe_begin; base < probe_end; base += Batch::rows) {
        load(next, base + Batch::rows, keeps_probe_values);
        unsigned chain[Batch::at_once];  // all heads are loaded before the first chain is followed
#pragma unroll
        for (int j = 0; j < Batch::at_once; ++j) {
          const std::uint64_t row = base + j * match_threads + threadIdx.x;
          now.key[j] = match_.probe.hash(now.key[j]);
          chain[j] = row < probe_end ? table.chain(now.key[j]) : Table<Key>::nobody;
          if (sums_probe && row < probe_end)
            probe_sum += match_.seen(now.key[j], now.value[j], match_.probe_moved, task_.part);
        }
#pragma unroll
        for (int j = 0; j < Batch::at_once; ++j)
          if (base + j * match_threads < probe_end)
            body(base + j * match_threads + threadIdx.x, now.key[j], now.value[j], chain[j]);
        now = next;
      }
      if (match_.met != nullptr) {
        __syncthreads();
        table.tell(match_.met + first, rows);
      }
      first += match_.table_rows;
    } while (first < build_end);
    __syncthreads();
    if (!sums) return;
    __shared__ std::uint64_t of_block[2];
    if (threadIdx.x < 2) of_block[threadIdx.x] = 0;
    __syncthreads();
    add_in_warp(probe_sum, &of_block[0]);
    add_in_warp(build_sum, &of_block[1]);
    __syncthreads();
    if (threadIdx.x < 2)
      atomicAdd(counter(match_.checksums + threadIdx.x), static_cast<unsigned long long>(of_block[threadIdx.x]));
  }

  __device__ __forceinline__ void note(std::uint64_t row) {
    const auto at = static_cast<unsigned>(row - probe_begin);
    atomicOr(&matched_[at / 32], 1u << at % 32);
  }
  [[nodiscard]] __device__ __forceinline__ bool has_matched(std::uint64_t row) const {
    const auto at = static_cast<unsigned>(row - probe_begin);
    return (matched_[at / 32] >> at % 32 & 1) != 0;
  }

  std::uint64_t probe_begin, probe_end;
  Table<Key> table;

 private:
  // Probe rows that a thread looks up one after the other, while the next batch is being loaded.
  struct Batch {
    static constexpr int at_once = 4, rows = at_once * match_threads;
    Key key[at_once];
    std::uint64_t value[at_once];
  };
  __device__ __forceinline__ void load(Batch& batch, std::uint64_t base, bool with_values) const {
    const auto* const keys = static_cast<const Key*>(match_.probe.keys);
#pragma unroll
    for (int j = 0; j < Batch::at_once; ++j) {
      const std::uint64_t row = base + j * match_threads + threadIdx.x;
      if (row >= probe_end) continue;
      batch.key[j] = keys[row];
      if (with_values) batch.value[j] = match_.probe.value(row);
    }
  }
  const RawHashMatch& match_;
  HashTask task_;
  unsigned* matched_;  // a bit for each probe row
};

template <typename Key>
__global__ void __launch_bounds__(match_threads, 2)
    count_matches_kernel(const RawHashMatch match, const HashTableShape shape, const RawHashCount count) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (blockIdx.x >= *match.task_count) return;
  Matching<Key> matching(match, shape, shared);
  MatchTotals mine;
  const bool only_whether = asks_whether(match.emission);
  const bool stops_early = only_whether && match.met == nullptr && !count.adds_values;
  matching.run(count.adds_values, [&](std::uint64_t row, Key hash, std::uint64_t value, unsigned chain) {
    std::uint64_t found = 0;
    for (unsigned r = matching.table.first(chain, hash); r != Table<Key>::nobody; r = matching.table.next(r, hash)) {
      ++found;
      if (count.adds_values) mine.build_sum += matching.table.value(r, match.build.value_type.is_signed);
      if (match.met != nullptr) matching.table.mark(r);
      if (stops_early) break;
    }
    if (found == 0) return;
    mine.matches += found;
    if (count.adds_values) mine.probe_sum += found * value;
    if (matching.wants_matched()) matching.note(row);
  });
  if (matching.wants_matched())
    for (std::uint64_t row = matching.probe_begin + threadIdx.x; row < matching.probe_end; row += match_threads)
      mine.matched_rows += matching.has_matched(row) ? 1 : 0;
  __shared__ std::uint64_t found[2];
  if (threadIdx.x < 2) found[threadIdx.x] = 0;
  __syncthreads();
  add_in_warp(mine.matches, &found[0]);
  add_in_warp(mine.matched_rows, &found[1]);
  __syncthreads();
  if (threadIdx.x == 0)
    count.emitted[blockIdx.x] =
        rows_of_task(match.emission, matching.probe_end - matching.probe_begin, found[0], found[1]);
  add_totals(mine, count.totals);
}

template <typename Key>
__global__ void __launch_bounds__(match_threads, 2)
    write_matches_kernel(const RawHashMatch match, const HashTableShape shape, const RawHashRows rows) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ unsigned taken;
  if (blockIdx.x >= *match.task_count) return;
  if (threadIdx.x == 0) taken = 0;
  Matching<Key> matching(match, shape, shared);
  const std::uint64_t first = rows.offsets[blockIdx.x];
  const unsigned lane = threadIdx.x % 32;
  // The rows that a warp emits at once take consecutive places.
  const auto place = [&](bool emits) {
    const unsigned votes = __ballot_sync(~0u, emits);
    unsigned base = 0;
    if (lane == 0 && votes != 0) base = atomicAdd(&taken, static_cast<unsigned>(__popc(votes)));
    return first + __shfl_sync(~0u, base, 0) + __popc(votes & ((1u << lane) - 1));
  };
  const bool writes_pairs = !asks_whether(match.emission);
  matching.run(rows.probe.to != nullptr, [&](std::uint64_t row, Key hash, std::uint64_t value, unsigned chain) {
    unsigned found = matching.table.first(chain, hash);
    if (found != Table<Key>::nobody && matching.wants_matched()) matching.note(row);
    if (!writes_pairs) return;
    while (__any_sync(~0u, found != Table<Key>::nobody)) {
      const bool emits = found != Table<Key>::nobody;
      const std::uint64_t at = place(emits);
      if (emits) {
        rows.probe.set(at, value);
        if (rows.build.to != nullptr) rows.build.set(at, matching.table.value(found, false));
        found = matching.table.next(found, hash);
      }
    }
  });
  if (!matching.wants_matched()) return;
  const bool wanted = match.emission == Emission::one_if_matched;
  for (std::uint64_t base = matching.probe_begin; base < matching.probe_end; base += match_threads) {
    const std::uint64_t row = base + threadIdx.x;
    const bool emits = row < matching.probe_end && matching.has_matched(row) == wanted;
    const std::uint64_t at = place(emits);
    if (!emits) continue;
    rows.probe.set(at, match.probe.value(row));
    rows.build.set(at, ~std::uint64_t{0});
  }
}

__global__ void take_rest_kernel(const RawHashRest rest) {
  const unsigned lane = threadIdx.x % 32;
  for (std::uint64_t base = global_thread() - lane; base < rest.build.count; base += grid_threads()) {
    const std::uint64_t row = base + lane;
    const bool takes = row < rest.build.count && (rest.met[row] != 0) == rest.wants_met;
    const unsigned votes = __ballot_sync(~0u, takes);
    unsigned long long before = 0;
    if (lane == 0 && votes != 0)
      before = atomicAdd(counter(rest.taken), static_cast<unsigned long long>(__popc(votes)));
    const std::uint64_t at = rest.first + __shfl_sync(~0u, before, 0) + __popc(votes & ((1u << lane) - 1));
    if (!takes) continue;
    rest.to_build.set(at, rest.build.value(row));
    rest.to_probe.set(at, ~std::uint64_t{0});
  }
}

}  // namespace linkwise::cuda::hash
