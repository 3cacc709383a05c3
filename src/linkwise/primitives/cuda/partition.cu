// Stable partition of records by splitters, in two passes over the keys.
//
// The first pass counts every tile's records by destination, and a scan over (destination, tile) turns the counts
// into offsets. The second pass ranks the records of a tile, orders them by destination in shared memory and stores
// runs that begin and end at the destination's cache lines, which may lie in the memory of peers: the exchange of
// join25 §3.1.2 without its copies. Whole lines matter there: over NVLink they arrive a fifth faster than the same
// bytes stored a warp at a time without alignment.
//
// In a tile each warp has a consecutive part, 32 records a round. Within a round, lanes with the same destination
// find each other by one ballot for each bit of its number; a counter for each (warp, destination) carries the rank
// from round to round. So the rank follows the input order, which makes the partition stable.
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/tile_splitters.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

constexpr int tile_bytes = 64 << 10;  // of the widest column
constexpr int count_threads = 512;
constexpr unsigned long_run = 1024;  // records; longer runs are stored by a whole block

constexpr int widest(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return static_cast<int>(key_bytes > value_bytes ? key_bytes : value_bytes);
}
constexpr int tile_of(int widest_bytes) { return tile_bytes / widest_bytes; }
constexpr int threads_of(int widest_bytes) { return widest_bytes == 4 ? 1024 : 512; }
int tile_of(RecordType type) { return tile_of(widest(type.key_bytes(), type.value_bytes())); }
std::uint64_t tiles_of(RecordType type, std::uint64_t count) {
  const auto tile = static_cast<std::uint64_t>(tile_of(type));
  return (count + tile - 1) / tile;
}

// Adds up the counts of all threads of the block, for each destination.
template <int threads>
__device__ void write_sums(const unsigned* counters, int destinations, std::uint64_t tiles,
                           std::uint64_t* tile_counts) {
  // Each word holds byte counters of four destinations. A warp adds up a row of words, two destinations at a time, in
  // the halves of a word.
  for (int row = threadIdx.x / 32; row * 4 < destinations; row += threads / 32) {
    unsigned even = 0, odd = 0;
    for (int column = threadIdx.x % 32; column < threads; column += 32) {
      const unsigned word = counters[row * threads + column];
      even += word & 0x00ff00ffu;
      odd += word >> 8 & 0x00ff00ffu;
    }
    even = __reduce_add_sync(0xffffffffu, even);
    odd = __reduce_add_sync(0xffffffffu, odd);
    if (threadIdx.x % 32 != 0) continue;
    const unsigned sums[] = {even & 0xffff, odd & 0xffff, even >> 16, odd >> 16};
    for (int i = 0; i < 4; ++i)
      if (row * 4 + i < destinations) tile_counts[(row * 4 + i) * tiles + blockIdx.x] = sums[i];
  }
}

// Each thread counts its records in bytes that no other thread writes: no atomics, and no bank conflicts, whatever
// the keys are. `tile_counts` is ordered by (destination, tile).
template <typename Key, int tile>
__global__ void __launch_bounds__(count_threads)
    count_kernel(const Key* keys, std::uint64_t count, const __grid_constant__ Splitters parameter, std::uint64_t tiles,
                 std::uint64_t* tile_counts) {
  constexpr int items = tile / count_threads;
  static_assert(items < 256, "a thread's counter is a byte");
  __shared__ TileSplitters<Key> splitters;
  __shared__ unsigned counters[max_destinations / 4 * count_threads];  // four destinations a word
  const std::uint64_t begin = blockIdx.x * std::uint64_t{tile};
  const int present = static_cast<int>(count - begin < tile ? count - begin : tile);
  Key key[items];
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int at = i * count_threads + threadIdx.x;
    key[i] = at < present ? keys[begin + at] : Key{0};
  }
  for (int row = 0; row <= parameter.count / 4; ++row) counters[row * count_threads + threadIdx.x] = 0;
  splitters.load(parameter, begin, begin + present);
  __syncthreads();
  auto* bytes = reinterpret_cast<unsigned char*>(counters) + 4 * threadIdx.x;
  const auto count_all = [&](auto levels) {
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const int at = i * count_threads + threadIdx.x;
      if (at >= present) continue;
      const int d = splitters.template destination<decltype(levels)::value>(key[i], begin + at);
      ++bytes[(d / 4) * (4 * count_threads) + d % 4];
    }
  };
  if (parameter.count >= 1 << few_levels) {
    count_all(std::integral_constant<int, many_levels>{});
  } else if (splitters.by_position) {
    count_all(std::integral_constant<int, few_levels>{});
  } else {
    // Few destinations: each thread counts, in registers, the records at or after each splitter.
    unsigned from[(1 << few_levels) - 1] = {};
    Key least[(1 << few_levels) - 1];
#pragma unroll
    for (int s = 0; s < (1 << few_levels) - 1; ++s) least[s] = splitters.least[s];
    const int absent =
        items - (present > static_cast<int>(threadIdx.x) ? (present - threadIdx.x - 1) / count_threads + 1 : 0);
#pragma unroll
    for (int i = 0; i < items; ++i)
#pragma unroll
      for (int s = 0; s < (1 << few_levels) - 1; ++s) from[s] += key[i] >= least[s] ? 1 : 0;
    // Absent records were read as key 0, which has been counted only for splitters that are 0 as well.
#pragma unroll
    for (int s = 0; s < (1 << few_levels) - 1; ++s) from[s] -= least[s] == 0 ? absent : 0;
    unsigned before = items - absent;
    for (int d = 0; d <= parameter.count; ++d) {
      unsigned next = 0;
#pragma unroll
      for (int s = 0; s < (1 << few_levels) - 1; ++s) next = s == d && s < parameter.count ? from[s] : next;
      bytes[(d / 4) * (4 * count_threads) + d % 4] = static_cast<unsigned char>(before - next);
      before = next;
    }
  }
  __syncthreads();
  write_sums<count_threads>(counters, parameter.count + 1, tiles, tile_counts);
}

// offsets is the exclusive scan over (destination, tile); a destination ends where the next one starts.
__global__ void totals_kernel(const std::uint64_t* offsets, std::uint64_t tiles, std::uint64_t count, int destinations,
                              std::uint64_t* totals) {
  const int d = threadIdx.x;
  if (d >= destinations) return;
  totals[d] = (d + 1 < destinations ? offsets[(d + 1) * tiles] : count) - offsets[d * tiles];
}

// What a block of the partition keeps in dynamic shared memory.
template <int threads, int tile, int widest_bytes>
struct PartitionStorage {
  alignas(16) unsigned char staged[tile * widest_bytes];
  unsigned short counters[threads / 32][max_destinations];
};

// Stores the runs of the ordered tile: element i of [starts[d], starts[d + 1]) goes to out(d)[shift[d] + i]. A short
// run is stored by one warp, a long one by the whole block; lanes are aligned with the destination's cache lines.
template <int threads, typename Element, typename Out>
__device__ void store_runs(const Element* staged, const unsigned* starts, const std::int64_t* shift, int destinations,
                           Out out) {
  constexpr int line = 128 / sizeof(Element);
  const auto store = [&](int d, int thread, int stride) {
    const int first = starts[d], last = starts[d + 1];
    Element* to = out(d) + shift[d];
    const int into_line = static_cast<int>(reinterpret_cast<std::uintptr_t>(to + first) / sizeof(Element) % line);
    for (int i = first - into_line + thread; i < last; i += stride)
      if (i >= first) to[i] = staged[i];
  };
  for (int d = threadIdx.x / 32; d < destinations; d += threads / 32)
    if (starts[d + 1] - starts[d] <= long_run) store(d, threadIdx.x % 32, 32);
  for (int d = 0; d < destinations; ++d)
    if (starts[d + 1] - starts[d] > long_run) store(d, threadIdx.x, threads);
}

// Sets `ranked` for each of a thread's records: its rank among the warp's records for the same destination, times
// max_destinations, plus the destination. `counters` gets the number of the warp's records for each destination.
template <int levels, int items, typename Key>
__device__ __forceinline__ void rank_tile(TileSplitters<Key>& splitters, const Key (&key)[items], int mine, int present,
                                          std::uint64_t tile_begin, unsigned short* counters,
                                          unsigned (&ranked)[items]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const bool is_present = mine + 32 * i < present;
    const int d = is_present ? splitters.template destination<levels>(key[i], tile_begin + mine + 32 * i) : 0;
    unsigned alike = __ballot_sync(0xffffffffu, is_present);
#pragma unroll
    for (int bit = 0; bit < levels; ++bit) {
      const bool is_set = (d >> bit & 1) != 0;
      const unsigned set = __ballot_sync(0xffffffffu, is_set);
      alike &= is_set ? set : ~set;
    }
    const int before = __popc(alike & ((1u << lane) - 1));
    const int earlier = counters[d];
    __syncwarp();
    if (is_present && before == 0) counters[d] = static_cast<unsigned short>(earlier + __popc(alike));
    __syncwarp();
    ranked[i] = static_cast<unsigned>((earlier + before) * max_destinations + d);
  }
}

// Where the runs of the ordered tile begin, and how far each is from its place in the output.
struct TileRuns {
  unsigned starts[max_destinations + 1];
  std::int64_t shift[max_destinations];  // add to the position in the ordered tile: the output position
};

// For each destination, finds where its run begins in the ordered tile, and replaces each warp's count by where the
// warp's part of the run begins. `offsets` is the exclusive scan over (destination, tile).
template <int threads>
__device__ __forceinline__ void scan_tile(unsigned short (*counters)[max_destinations], int destinations,
                                          std::uint64_t tiles, const std::uint64_t* offsets, TileRuns& runs) {
  using Scan = cub::BlockScan<unsigned, threads>;
  __shared__ typename Scan::TempStorage storage;
  constexpr int warps = threads / 32;
  unsigned total = 0, start = 0;
  if (threadIdx.x < destinations)
    for (int w = 0; w < warps; ++w) total += counters[w][threadIdx.x];
  Scan(storage).ExclusiveSum(total, start);
  if (threadIdx.x >= destinations) return;
  unsigned next = start;
  for (int w = 0; w < warps; ++w) {
    const unsigned of_warp = counters[w][threadIdx.x];
    counters[w][threadIdx.x] = static_cast<unsigned short>(next);
    next += of_warp;
  }
  const std::uint64_t* of_destination = offsets + threadIdx.x * tiles;
  runs.starts[threadIdx.x] = start;
  runs.shift[threadIdx.x] = static_cast<std::int64_t>(of_destination[blockIdx.x] - of_destination[0]) - start;
  if (threadIdx.x + 1 == destinations) runs.starts[destinations] = start + total;
}

// Puts a thread's keys into their places in the ordered tile; `ranked` then holds these places.
template <int items, typename Key>
__device__ __forceinline__ void scatter_keys(Key* staged, const Key (&key)[items], int mine, int present,
                                             const unsigned short* starts_of_warp, unsigned (&ranked)[items]) {
#pragma unroll
  for (int i = 0; i < items; ++i) {
    if (mine + 32 * i >= present) continue;
    ranked[i] = ranked[i] / max_destinations + starts_of_warp[ranked[i] % max_destinations];
    staged[ranked[i]] = key[i];
  }
}

template <typename Key, typename Value>
__global__ void __launch_bounds__(threads_of(widest(sizeof(Key), sizeof(Value))),
                                  sizeof(Key) > 4 || sizeof(Value) > 4 ? 2 : 1)
    partition_kernel(const Key* keys, const Value* values, std::uint64_t count,
                     const __grid_constant__ Splitters parameter, std::uint64_t tiles, const std::uint64_t* offsets,
                     const __grid_constant__ RawDestinations to) {
  constexpr int widest_bytes = widest(sizeof(Key), sizeof(Value));
  constexpr int tile = tile_of(widest_bytes), threads = threads_of(widest_bytes), items = tile / threads;
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto& storage = *reinterpret_cast<PartitionStorage<threads, tile, widest_bytes>*>(dynamic);
  __shared__ TileSplitters<Key> splitters;
  __shared__ TileRuns runs;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint64_t tile_begin = blockIdx.x * std::uint64_t{tile};
  const int present = static_cast<int>(count - tile_begin < tile ? count - tile_begin : tile);
  const int mine = warp * 32 * items + lane;  // the place in the tile of this thread's first record
  Key key[items];
#pragma unroll
  for (int i = 0; i < items; ++i)
    if (mine + 32 * i < present) key[i] = keys[tile_begin + mine + 32 * i];

  splitters.load(parameter, tile_begin, tile_begin + present);
  for (int d = lane; d < max_destinations; d += 32) storage.counters[warp][d] = 0;
  __syncthreads();
  const int destinations = parameter.count + 1;
  unsigned ranked[items];
  if (parameter.count < 1 << few_levels)
    rank_tile<few_levels>(splitters, key, mine, present, tile_begin, storage.counters[warp], ranked);
  else rank_tile<many_levels>(splitters, key, mine, present, tile_begin, storage.counters[warp], ranked);
  __syncthreads();
  scan_tile<threads>(storage.counters, destinations, tiles, offsets, runs);
  __syncthreads();

  auto* staged_keys = reinterpret_cast<Key*>(storage.staged);
  scatter_keys(staged_keys, key, mine, present, storage.counters[warp], ranked);
  __syncthreads();
  store_runs<threads>(staged_keys, runs.starts, runs.shift, destinations,
                      [&](int d) { return static_cast<Key*>(to.records[d].keys); });
  if constexpr (!std::is_same_v<Value, NoValue>) {
    __syncthreads();
    auto* staged_values = reinterpret_cast<Value*>(storage.staged);
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (mine + 32 * i < present) staged_values[ranked[i]] = values[tile_begin + mine + 32 * i];
    __syncthreads();
    store_runs<threads>(staged_values, runs.starts, runs.shift, destinations,
                        [&](int d) { return static_cast<Value*>(to.records[d].values); });
  }
}

// Launch parameters of the partition kernel for a record type.
template <typename Key, typename Value>
struct PartitionLaunch {
  static constexpr int widest_bytes = widest(sizeof(Key), sizeof(Value));
  static constexpr int threads = threads_of(widest_bytes);
  static constexpr int shared_bytes = sizeof(PartitionStorage<threads, tile_of(widest_bytes), widest_bytes>);
};

// The scratch holds the offsets, followed by the scratch of the scan.
std::uint64_t offset_bytes(RecordType type, std::uint64_t count, int destinations) {
  return (tiles_of(type, count) * destinations * 8 + 255) / 256 * 256;
}

std::size_t scan_bytes(std::uint64_t length) {
  std::size_t bytes = 0;
  std::uint64_t* none = nullptr;
  check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, none, none, length), "ask for the scratch of a scan");
  return bytes;
}

// Calls body(Tag<Key>, std::integral_constant<int, tile>).
template <typename Body>
void with_key_and_tile(RecordType type, Body&& body) {
  with_key(type.key, [&](auto key) {
    constexpr int key_bytes = sizeof(typename decltype(key)::type);
    switch (widest(type.key_bytes(), type.value_bytes())) {
      case 4:
        if constexpr (key_bytes == 4) body(key, std::integral_constant<int, tile_of(4)>{});
        return;
      case 8: return body(key, std::integral_constant<int, tile_of(8)>{});
      default: return body(key, std::integral_constant<int, tile_of(16)>{});
    }
  });
}

}  // namespace

KernelList partition_kernels() {
  KernelList list{address(totals_kernel)};
  for (const KeyWidth key_width : {KeyWidth::k32, KeyWidth::k64})
    for (const ValueWidth value_width : {ValueWidth::none, ValueWidth::v4, ValueWidth::v8, ValueWidth::v16}) {
      with_key_and_tile({key_width, value_width}, [&](auto key, auto tile) {
        list.push_back(address(count_kernel<typename decltype(key)::type, decltype(tile)::value>));
      });
      with_record({key_width, value_width}, [&](auto key, auto value) {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        list.push_back(address(partition_kernel<Key, Value>));
      });
    }
  return list;
}

std::uint64_t partition_scratch_bytes(RecordType type, std::uint64_t count, int destinations) {
  return offset_bytes(type, count, destinations) + scan_bytes(tiles_of(type, count) * destinations);
}

void partition_count(cudaStream_t stream, RecordType type, const void* keys, std::uint64_t count,
                     const Splitters& splitters, void* scratch, std::uint64_t scratch_bytes, std::uint64_t* totals) {
  const int destinations = splitters.count + 1;
  if (count == 0) return check(cudaMemsetAsync(totals, 0, 8 * destinations, stream), "clear totals");
  const std::uint64_t tiles = tiles_of(type, count);
  auto* offsets = static_cast<std::uint64_t*>(scratch);
  with_key_and_tile(type, [&](auto key, auto tile) {
    using Key = typename decltype(key)::type;
    count_kernel<Key, decltype(tile)::value><<<static_cast<unsigned>(tiles), count_threads, 0, stream>>>(
        static_cast<const Key*>(keys), count, splitters, tiles, offsets);
  });
  check_launch("count");
  const std::uint64_t used = offset_bytes(type, count, destinations);
  std::size_t left = scratch_bytes - used;
  check(cub::DeviceScan::ExclusiveSum(static_cast<char*>(scratch) + used, left, offsets, offsets, tiles * destinations,
                                      stream),
        "scan counts");
  totals_kernel<<<1, max_destinations, 0, stream>>>(offsets, tiles, count, destinations, totals);
  check_launch("totals");
}

void partition(cudaStream_t stream, RecordType type, RawRecords from, std::uint64_t count, const Splitters& splitters,
               const void* scratch, const RawDestinations& to) {
  const std::uint64_t tiles = tiles_of(type, count);
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    using Launch = PartitionLaunch<Key, Value>;
    check(cudaFuncSetAttribute(partition_kernel<Key, Value>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Launch::shared_bytes),
          "partition");
    partition_kernel<Key, Value><<<static_cast<unsigned>(tiles), Launch::threads, Launch::shared_bytes, stream>>>(
        static_cast<const Key*>(from.keys), static_cast<const Value*>(from.values), count, splitters, tiles,
        static_cast<const std::uint64_t*>(scratch), to);
  });
  check_launch("partition");
}

}  // namespace linkwise::cuda
