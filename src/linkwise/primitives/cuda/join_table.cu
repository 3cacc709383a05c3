// Unpartitioned joins: fills one table of the whole build side in device memory, and looks up the probe side in it.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/match_totals.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

constexpr int probes_at_once = 4;  // of a thread, so that their first slots are loaded together
constexpr std::uint64_t probe_tile = std::uint64_t{probes_at_once} * block_threads;
constexpr int counting_blocks = 6;        // at once on a multiprocessor: few registers, to hide the latency of lookups
constexpr unsigned counted_tiles = 32;    // by a block of a long side, whose totals then meet those of few others
constexpr std::uint32_t many_steps = 32;  // after which a thread asks whether others have given the table up
constexpr unsigned lanes = 32, all_lanes = ~0U;

/// The table with its kind known at compile time.
template <TableKind kind>
__device__ __forceinline__ RawJoinTable of_kind(RawJoinTable table) {
  table.kind = kind;
  return table;
}

// Enters a row in the first free slot. Returns whether an equal key was met on the way, which linear probing without
// deletions never misses.
template <typename Key>
__device__ bool enter_hashed(const RawJoinTable& table, Key hash, std::uint64_t row) {
  auto* const slots = static_cast<TableSlot<Key>*>(table.entries);
  bool is_repeated = false, has_room = sizeof(Key) == 4 || hash != RawJoinTable::free_slot<Key>;
  std::uint64_t at = table.place(hash);
  for (std::uint32_t step = 0; has_room && step <= RawJoinTable::most_steps; ++step, at = table.after(at)) {
    Key found;
    if constexpr (sizeof(Key) == 4) {
      constexpr unsigned long long free = ~0ULL;
      const unsigned long long entry = static_cast<unsigned long long>(hash) << 32 | row;
      const unsigned long long old = atomicCAS(reinterpret_cast<unsigned long long*>(&slots[at]), free, entry);
      if (old == free) return is_repeated;
      found = static_cast<Key>(old >> 32);
    } else {
      const std::uint64_t old = atomicCAS(counter(&slots[at].hash), RawJoinTable::free_slot<Key>, hash);
      if (old == RawJoinTable::free_slot<Key>) {
        slots[at].row = row;
        return is_repeated;
      }
      found = old;
    }
    is_repeated |= found == hash;
    has_room = step < many_steps || *static_cast<volatile std::uint64_t*>(&table.state->crowded) == 0;
  }
  atomicAdd(counter(&table.state->crowded), 1ULL);
  return false;
}

template <typename Key, TableKind kind>
__global__ void __launch_bounds__(block_threads) fill_table_kernel(const RawJoinTable any) {
  const RawJoinTable table = of_kind<kind>(any);
  auto* const words = static_cast<std::uint32_t*>(table.entries);
  std::uint64_t repeated = 0;
  for (std::uint64_t row = global_thread(); row < table.build.count; row += grid_threads()) {
    const Key sought = table.sought(table.build, static_cast<const Key*>(table.build.keys)[row]);
    if constexpr (kind == TableKind::hashed) {
      repeated += enter_hashed(table, sought, row) ? 1 : 0;
    } else {
      const std::uint64_t at = table.place(sought);
      if (at >= table.places) atomicAdd(counter(&table.state->crowded), 1ULL);
      else if constexpr (kind == TableKind::direct)
        repeated += atomicExch(&words[at], static_cast<std::uint32_t>(row)) == RawJoinTable::nobody ? 0 : 1;
      else repeated += atomicOr(&words[at / 32], 1U << at % 32) >> at % 32 & 1;
    }
  }
  add_in_warp(repeated, &table.state->repeated);
}

// Where the lookup of a key starts, and what lies there.
template <typename Key, TableKind kind>
struct Lookup {
  TableCursor<Key> cursor;
  TableSlot<Key> slot;
  std::uint32_t word;

  __device__ __forceinline__ void load(const RawJoinTable& table, Key sought) {
    cursor.place = table.place(sought);
    if constexpr (kind == TableKind::hashed) {
      slot = table.slot<Key>(cursor.place);
    } else {
      constexpr unsigned in_word = kind == TableKind::bitmap ? 32 : 1;
      const std::uint32_t absent = kind == TableKind::bitmap ? 0 : RawJoinTable::nobody;
      const auto* const words = static_cast<const std::uint32_t*>(table.entries);
      word = cursor.place < table.places ? words[cursor.place / in_word] : absent;
    }
  }
  __device__ __forceinline__ void find(const RawJoinTable& table, Key sought) {
    if constexpr (kind == TableKind::hashed) cursor.seek(table, sought, slot);
    else if constexpr (kind == TableKind::direct) cursor.row = word;
    else cursor.row = (word >> cursor.place % 32 & 1) != 0 ? 0 : RawJoinTable::nobody;
  }
};

template <typename Key, TableKind kind>
__global__ void __launch_bounds__(block_threads) check_table_kernel(const RawJoinTable any) {
  const RawJoinTable table = of_kind<kind>(any);
  if (table.state->crowded > 0 || (kind == TableKind::direct && table.state->repeated > 0)) return;
  std::uint64_t missing = 0;
  for (std::uint64_t row = global_thread(); row < table.build.count; row += grid_threads()) {
    const Key sought = table.sought(table.build, static_cast<const Key*>(table.build.keys)[row]);
    Lookup<Key, kind> lookup;
    lookup.load(table, sought);
    lookup.find(table, sought);
    TableCursor<Key> cursor = lookup.cursor;
    while (kind != TableKind::bitmap && cursor.has_row() && cursor.row != row) cursor.next(table, sought);
    missing += cursor.has_row() ? 0 : 1;
  }
  add_in_warp(missing, &table.state->missing);
}

// A thread's probe rows of a tile, each with its first match.
template <typename Key, TableKind kind>
struct ProbedRows {
  std::uint64_t first;  // row, the others being block_threads apart
  Key sought[probes_at_once];
  TableCursor<Key> cursor[probes_at_once];

  __device__ __forceinline__ ProbedRows(const RawTableProbe& probe, const RawJoinTable& table, std::uint64_t number)
      : first(number * probe_tile + threadIdx.x) {
    Lookup<Key, kind> lookup[probes_at_once];
#pragma unroll
    for (int j = 0; j < probes_at_once; ++j)
      if (row(j) < probe.probe.count) sought[j] = __ldcs(static_cast<const Key*>(probe.probe.keys) + row(j));
#pragma unroll
    for (int j = 0; j < probes_at_once; ++j) {
      if (row(j) >= probe.probe.count) continue;
      sought[j] = table.sought(probe.probe, sought[j]);
      lookup[j].load(table, sought[j]);
    }
#pragma unroll
    for (int j = 0; j < probes_at_once; ++j) {
      if (row(j) < probe.probe.count) lookup[j].find(table, sought[j]);
      cursor[j] = lookup[j].cursor;
    }
  }
  [[nodiscard]] __device__ __forceinline__ std::uint64_t row(int j) const {
    return first + static_cast<std::uint64_t>(j) * block_threads;
  }
};

/// Visits a row's matches, and returns their number. With `once`, only the first.
template <typename Key, typename Visit>
__device__ __forceinline__ std::uint64_t for_matches(const RawJoinTable& table, Key sought, TableCursor<Key> cursor,
                                                     bool once, const Visit& visit) {
  std::uint64_t matches = 0;
  while (cursor.has_row()) {
    ++matches;
    visit(cursor.row);
    if (once) break;
    cursor.next(table, sought);
  }
  return matches;
}

// Whether a key's first match is all that is needed.
__device__ __forceinline__ bool takes_one(const RawTableProbe& probe, const RawJoinTable& table) {
  return table.kind != TableKind::hashed || table.state->repeated == 0 ||
         (asks_whether(probe.emission) && probe.met == nullptr && !probe.adds_values);
}

template <typename Key, TableKind kind>
__global__ void __launch_bounds__(block_threads, counting_blocks)
    count_table_kernel(const RawTableProbe probe, MatchTotals* totals) {
  if (!probe.is_usable()) return;
  const RawJoinTable table = of_kind<kind>(probe.table);
  const bool once = takes_one(probe, table);
  MatchTotals mine;
  for (std::uint64_t tile = blockIdx.x; tile * probe_tile < probe.probe.count; tile += gridDim.x) {
    const ProbedRows<Key, kind> rows(probe, table, tile);
#pragma unroll
    for (int j = 0; j < probes_at_once; ++j) {
      const std::uint64_t matches =
          for_matches(table, rows.sought[j], rows.cursor[j], once, [&](std::uint32_t build_row) {
            if (probe.met != nullptr) probe.met[build_row] = 1;
            if (probe.adds_values) mine.build_sum += table.build.value(build_row);
          });
      mine.matches += matches;
      mine.matched_rows += matches > 0 ? 1 : 0;
      if (probe.adds_values && matches > 0) mine.probe_sum += matches * probe.probe.value(rows.row(j));
    }
  }
  add_totals(mine, totals);
}

/// Takes places in the result for all rows that a block writes, given how many its warp does. Returns where the warp's
/// begin.
__device__ __forceinline__ std::uint64_t take_places(unsigned of_my_warp, std::uint64_t* taken) {
  constexpr unsigned warps = block_threads / lanes;
  __shared__ unsigned of_warp[warps];
  __shared__ std::uint64_t first;
  const unsigned warp = threadIdx.x / lanes;
  if (threadIdx.x % lanes == 0) of_warp[warp] = of_my_warp;
  __syncthreads();
  unsigned before = 0, all = 0;
#pragma unroll
  for (unsigned w = 0; w < warps; ++w) {
    before += w < warp ? of_warp[w] : 0;
    all += of_warp[w];
  }
  if (threadIdx.x == 0) first = all == 0 ? 0 : atomicAdd(counter(taken), static_cast<unsigned long long>(all));
  __syncthreads();
  return first + before;
}

/// Writes a value that is not read again, so that the table keeps the caches.
__device__ __forceinline__ void put(const RawHashColumn& column, std::uint64_t row, std::uint64_t value) {
  if (column.to == nullptr) return;
  if (column.bytes == 4) __stcs(static_cast<std::uint32_t*>(column.to) + row, static_cast<std::uint32_t>(value));
  else __stcs(static_cast<std::uint64_t*>(column.to) + row, value);
}

template <typename Key, TableKind kind>
__global__ void __launch_bounds__(block_threads)
    write_table_kernel(const RawTableProbe probe, const RawTableRows rows) {
  if (!probe.is_usable()) return;
  const RawJoinTable table = of_kind<kind>(probe.table);
  const bool once = takes_one(probe, table);
  const bool writes_pairs = !asks_whether(probe.emission);
  const ProbedRows<Key, kind> probed(probe, table, blockIdx.x);
  unsigned emitted[probes_at_once], of_thread = 0;
#pragma unroll
  for (int j = 0; j < probes_at_once; ++j) {
    const std::uint64_t matches =
        for_matches(table, probed.sought[j], probed.cursor[j], once, [&](std::uint32_t build_row) {
          if (probe.met != nullptr) probe.met[build_row] = 1;
        });
    const bool is_row = probed.row(j) < probe.probe.count;
    emitted[j] = is_row ? static_cast<unsigned>(rows_emitted(probe.emission, matches)) : 0;
    of_thread += emitted[j];
  }
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) of_thread += __shfl_xor_sync(all_lanes, of_thread, offset);
  std::uint64_t at = take_places(of_thread, rows.taken);
  const unsigned before = (1U << threadIdx.x % lanes) - 1;
#pragma unroll
  for (int j = 0; j < probes_at_once; ++j) {
    TableCursor<Key> cursor = probed.cursor[j];
    for (unsigned written = 0; true; ++written) {  // the rows that a warp writes at once take consecutive places
      const bool writes = written < emitted[j];
      const unsigned votes = __ballot_sync(all_lanes, writes);
      if (votes == 0) break;
      const std::uint64_t place = at + __popc(votes & before);
      at += __popc(votes);
      if (!writes) continue;
      if (place < rows.capacity) {
        put(rows.probe, place, probe.probe.value(probed.row(j)));
        put(rows.build, place, writes_pairs && cursor.has_row() ? table.build.value(cursor.row) : ~std::uint64_t{0});
      }
      if (written + 1 < emitted[j]) cursor.next(table, probed.sought[j]);
    }
  }
}

/// Writes a row number that is not read again.
template <typename Number>
__device__ __forceinline__ void put_number(void* to, std::uint64_t place, std::uint64_t number) {
  if (to != nullptr) __stcs(static_cast<Number*>(to) + place, static_cast<Number>(number));
}

// Where a probe row makes one row of the result at most, and these are numbers: few instructions, which otherwise bound
// the join rather than the memory.
template <typename Key, TableKind kind, typename Number>
__global__ void __launch_bounds__(block_threads)
    write_singles_kernel(const RawTableProbe probe, const RawTableRows rows) {
  if (!probe.is_usable()) return;
  const RawJoinTable table = of_kind<kind>(probe.table);
  const ProbedRows<Key, kind> probed(probe, table, blockIdx.x);
  const bool with_match = probe.emission != Emission::one_if_unmatched,
             without_match = probe.emission == Emission::pairs_or_one || !with_match,
             writes_pairs = !asks_whether(probe.emission);
  unsigned votes[probes_at_once], of_warp = 0;
#pragma unroll
  for (int j = 0; j < probes_at_once; ++j) {
    const bool is_row = probed.row(j) < probe.probe.count, matches = is_row && probed.cursor[j].has_row();
    if (probe.met != nullptr && matches) probe.met[probed.cursor[j].row] = 1;
    votes[j] = __ballot_sync(all_lanes, is_row && (matches ? with_match : without_match));
    of_warp += __popc(votes[j]);
  }
  const unsigned lane = threadIdx.x % lanes;
  std::uint64_t at = take_places(of_warp, rows.taken);
#pragma unroll
  for (int j = 0; j < probes_at_once; ++j) {
    const std::uint64_t place = at + __popc(votes[j] & ((1U << lane) - 1));
    at += __popc(votes[j]);
    if ((votes[j] >> lane & 1) == 0 || place >= rows.capacity) continue;
    const std::uint32_t found = probed.cursor[j].row;
    put_number<Number>(rows.probe.to, place, probe.probe.first_row + probed.row(j));
    const bool is_pair = writes_pairs && found != RawJoinTable::nobody;
    put_number<Number>(rows.build.to, place, is_pair ? table.build.first_row + found : ~std::uint64_t{0});
  }
}

// Whether that kernel applies.
bool makes_singles(const RawTableProbe& probe, const RawTableRows& rows) {
  const bool are_numbers = probe.probe.values == nullptr && probe.table.build.values == nullptr;
  const bool are_alike = rows.build.to == nullptr || rows.build.bytes == rows.probe.bytes;
  const bool first_is_enough = asks_whether(probe.emission) && probe.met == nullptr;
  return are_numbers && are_alike && (probe.table.kind != TableKind::hashed || !probe.may_repeat || first_is_enough);
}

template <typename Key, TableKind kind>
void add_kernels(KernelList& list) {
  list.insert(list.end(), {address(fill_table_kernel<Key, kind>), address(check_table_kernel<Key, kind>),
                           address(count_table_kernel<Key, kind>), address(write_table_kernel<Key, kind>),
                           address(write_singles_kernel<Key, kind, std::uint32_t>),
                           address(write_singles_kernel<Key, kind, std::uint64_t>)});
}

template <TableKind kind>
using Kind = std::integral_constant<TableKind, kind>;

// Calls body(Tag<Key>, Kind<kind>).
template <typename Body>
void with_table(const RawJoinTable& table, Body&& body) {
  with_key(table.width, [&](auto key) {
    switch (table.kind) {
      case TableKind::hashed: return body(key, Kind<TableKind::hashed>{});
      case TableKind::direct: return body(key, Kind<TableKind::direct>{});
      case TableKind::bitmap: return body(key, Kind<TableKind::bitmap>{});
    }
  });
}

void clear_met(cudaStream_t stream, const RawTableProbe& probe) {
  if (probe.met != nullptr)
    check(cudaMemsetAsync(probe.met, 0, probe.table.build.count, stream), "clear which rows have matched");
}

unsigned tiles_of(const RawTableProbe& probe) {
  return static_cast<unsigned>((probe.probe.count + probe_tile - 1) / probe_tile);
}

}  // namespace

KernelList join_table_kernels() {
  KernelList list;
  const auto add = [&](auto key) {
    using Key = typename decltype(key)::type;
    add_kernels<Key, TableKind::hashed>(list);
    add_kernels<Key, TableKind::direct>(list);
    add_kernels<Key, TableKind::bitmap>(list);
  };
  add(Tag<std::uint32_t>{});
  add(Tag<std::uint64_t>{});
  return list;
}

std::uint64_t cache_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(least_of_devices(cudaDevAttrL2CacheSize));
  return bytes;
}

void fill_join_table(cudaStream_t stream, const RawJoinTable& table) {
  check(cudaMemsetAsync(table.entries, empty_table_byte(table.kind), table_bytes(table.kind, table.width, table.places),
                        stream),
        "clear the table");
  check(cudaMemsetAsync(table.state, 0, sizeof *table.state, stream), "clear the table's state");
  if (table.build.count == 0) return;
  with_table(table, [&](auto key, auto kind) {
    fill_table_kernel<typename decltype(key)::type, decltype(kind)::value>
        <<<grid_for(table.build.count), block_threads, 0, stream>>>(table);
  });
  check_launch("fill the table");
}

void check_join_table(cudaStream_t stream, const RawJoinTable& table) {
  if (table.build.count == 0) return;
  with_table(table, [&](auto key, auto kind) {
    check_table_kernel<typename decltype(key)::type, decltype(kind)::value>
        <<<grid_for(table.build.count), block_threads, 0, stream>>>(table);
  });
  check_launch("check the table");
}

void count_table_matches(cudaStream_t stream, const RawTableProbe& probe, MatchTotals* totals) {
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream), "clear the totals");
  clear_met(stream, probe);
  if (probe.probe.count == 0) return;
  const unsigned tiles = tiles_of(probe);
  const unsigned blocks = std::max(std::min(tiles, grid_for(probe.probe.count)), tiles / counted_tiles);
  with_table(probe.table, [&](auto key, auto kind) {
    count_table_kernel<typename decltype(key)::type, decltype(kind)::value>
        <<<blocks, block_threads, 0, stream>>>(probe, totals);
  });
  check_launch("count matches in the table");
}

void write_table_matches(cudaStream_t stream, const RawTableProbe& probe, const RawTableRows& rows) {
  check(cudaMemsetAsync(rows.taken, 0, sizeof *rows.taken, stream), "clear the number of rows");
  clear_met(stream, probe);
  if (probe.probe.count == 0) return;
  with_table(probe.table, [&](auto key, auto kind) {
    const auto write = [&](auto* kernel) { kernel<<<tiles_of(probe), block_threads, 0, stream>>>(probe, rows); };
    using Key = typename decltype(key)::type;
    constexpr TableKind of_table = decltype(kind)::value;
    if (!makes_singles(probe, rows)) write(write_table_kernel<Key, of_table>);
    else if (rows.probe.bytes == 4) write(write_singles_kernel<Key, of_table, std::uint32_t>);
    else write(write_singles_kernel<Key, of_table, std::uint64_t>);
  });
  check_launch("write matches from the table");
}

}  // namespace linkwise::cuda
