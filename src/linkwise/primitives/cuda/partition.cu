// Stable partition of records by splitters, in two passes over the keys.
//
// A block takes a tile of consecutive records; each of its warps a consecutive part of that, 32 records a
// round. Within a round, lanes with the same destination rank themselves by `__match_any_sync`; a counter
// per (destination, warp) carries the rank from round to round. So the rank follows the input order, which
// makes the partition stable. The first pass counts and a scan over (destination, tile) turns counts into
// offsets; the second orders each tile by destination in shared memory and stores contiguous pieces, which
// may lie in the memory of peers: the exchange of join25 §3.1.2 without its copies.
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"

namespace linkwise::cuda {
namespace {

constexpr int warps = block_threads / 32;
constexpr int tile_bytes = 16 << 10;
static_assert(max_destinations * warps == block_threads, "one (destination, warp) counter a thread");

constexpr int widest(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return static_cast<int>(key_bytes > value_bytes ? key_bytes : value_bytes);
}
constexpr int items_per_thread(int widest_bytes) { return tile_bytes / widest_bytes / block_threads; }
std::uint64_t tile_records(RecordType type) {
  return static_cast<std::uint64_t>(items_per_thread(widest(type.key_bytes(), type.value_bytes()))) * block_threads;
}
std::uint64_t tiles_of(RecordType type, std::uint64_t count) {
  return (count + tile_records(type) - 1) / tile_records(type);
}

// Copies the splitters to shared memory: a kernel parameter indexed by lane would be read lane by lane.
__device__ const Splitters& share(const Splitters& splitters) {
  __shared__ Splitters shared;
  if (threadIdx.x == 0) shared.count = splitters.count;
  for (int s = threadIdx.x; s < splitters.count; s += blockDim.x) {
    shared.key[s] = splitters.key[s];
    shared.position[s] = splitters.position[s];
  }
  __syncthreads();
  return shared;
}

// Position in the tile of a thread's item.
template <int items>
__device__ int position_in_tile(int item) {
  return (threadIdx.x / 32) * 32 * items + item * 32 + threadIdx.x % 32;
}

// Ranks the tile's records: destination[i] and rank[i] of the thread's items, and per (destination, warp) the
// number of records in counters[destination * warps + warp]. Absent records get destination -1.
template <typename Key, int items>
__device__ void rank_tile(const Key* keys, std::uint64_t count, std::uint64_t tile_begin, const Splitters& splitters,
                          unsigned* counters, Key (&key)[items], int (&destination)[items], unsigned (&rank)[items]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  counters[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const std::uint64_t position = tile_begin + position_in_tile<items>(i);
    destination[i] = -1;
    if (position < count) {
      key[i] = keys[position];
      destination[i] = destination_of(splitters, key[i], position);
    }
  }
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const unsigned alike = __match_any_sync(0xffffffffu, destination[i]);
    const unsigned before = __popc(alike & ((1u << lane) - 1));
    rank[i] = 0;
    if (destination[i] >= 0) rank[i] = counters[destination[i] * warps + warp] + before;
    __syncwarp();
    if (destination[i] >= 0 && before == 0) counters[destination[i] * warps + warp] += __popc(alike);
    __syncwarp();
  }
  __syncthreads();
}

template <typename Key, int items>
__global__ void __launch_bounds__(block_threads) count_kernel(const Key* keys, std::uint64_t count, Splitters parameter,
                                                              std::uint64_t tiles, std::uint64_t* tile_counts) {
  const Splitters& splitters = share(parameter);
  __shared__ unsigned counters[block_threads];
  Key key[items];
  int destination[items];
  unsigned rank[items];
  rank_tile<Key, items>(keys, count, blockIdx.x * std::uint64_t{items * block_threads}, splitters, counters, key,
                        destination, rank);
  const int d = threadIdx.x;
  if (d > splitters.count) return;
  std::uint64_t sum = 0;
  for (int warp = 0; warp < warps; ++warp) sum += counters[d * warps + warp];
  tile_counts[d * tiles + blockIdx.x] = sum;
}

// offsets is the exclusive scan over (destination, tile); the next destination's start ends this one.
__global__ void totals_kernel(const std::uint64_t* offsets, std::uint64_t tiles, std::uint64_t count, int destinations,
                              std::uint64_t* totals) {
  const int d = threadIdx.x;
  if (d >= destinations) return;
  totals[d] = (d + 1 < destinations ? offsets[(d + 1) * tiles] : count) - offsets[d * tiles];
}

template <typename Key, typename Value>
__global__ void __launch_bounds__(block_threads)
    partition_kernel(const Key* keys, const Value* values, std::uint64_t count, Splitters parameter,
                     std::uint64_t tiles, const std::uint64_t* offsets, RawDestinations to) {
  constexpr bool has_value = !std::is_same_v<Value, NoValue>;
  constexpr int items = items_per_thread(widest(sizeof(Key), has_value ? sizeof(Value) : 0));
  constexpr int tile = items * block_threads;
  const Splitters& splitters = share(parameter);
  __shared__ unsigned counters[block_threads];
  __shared__ alignas(16) unsigned char staging[tile_bytes];
  __shared__ unsigned char staged_destination[tile];
  __shared__ std::uint64_t shift[max_destinations];  // add to the position in the ordered tile: the output position
  Key key[items];
  int destination[items];
  unsigned rank[items];
  const std::uint64_t tile_begin = blockIdx.x * std::uint64_t{tile};
  rank_tile<Key, items>(keys, count, tile_begin, splitters, counters, key, destination, rank);

  using Scan = cub::BlockScan<unsigned, block_threads>;
  __shared__ typename Scan::TempStorage scan_storage;
  unsigned start = 0;
  Scan(scan_storage).ExclusiveSum(counters[threadIdx.x], start);
  counters[threadIdx.x] = start;
  if (threadIdx.x % warps == 0) {
    const int d = threadIdx.x / warps;
    if (d <= splitters.count) shift[d] = offsets[d * tiles + blockIdx.x] - offsets[d * tiles] - start;
  }
  __syncthreads();

  auto* staged_keys = reinterpret_cast<Key*>(staging);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    if (destination[i] < 0) continue;
    rank[i] += counters[destination[i] * warps + threadIdx.x / 32];
    staged_keys[rank[i]] = key[i];
    staged_destination[rank[i]] = static_cast<unsigned char>(destination[i]);
  }
  __syncthreads();
  const int present = static_cast<int>(count - tile_begin < tile ? count - tile_begin : tile);
  for (int i = threadIdx.x; i < present; i += block_threads) {
    const int d = staged_destination[i];
    static_cast<Key*>(to.records[d].keys)[shift[d] + i] = staged_keys[i];
  }
  if constexpr (has_value) {
    __syncthreads();
    auto* staged_values = reinterpret_cast<Value*>(staging);
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (destination[i] >= 0) staged_values[rank[i]] = values[tile_begin + position_in_tile<items>(i)];
    __syncthreads();
    for (int i = threadIdx.x; i < present; i += block_threads) {
      const int d = staged_destination[i];
      static_cast<Value*>(to.records[d].values)[shift[d] + i] = staged_values[i];
    }
  }
}

// The scratch holds the offsets and, behind them, what the scan needs.
std::uint64_t offset_bytes(RecordType type, std::uint64_t count, int destinations) {
  return (tiles_of(type, count) * destinations * 8 + 255) / 256 * 256;
}

std::size_t scan_bytes(std::uint64_t length) {
  std::size_t bytes = 0;
  std::uint64_t* none = nullptr;
  check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, none, none, length), "ask for the scratch of a scan");
  return bytes;
}

template <typename Kernel>
const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

// Calls body(Tag<Key>, std::integral_constant<int, items>).
template <typename Body>
void with_key_and_items(RecordType type, Body&& body) {
  with_key(type.key, [&](auto key) {
    constexpr int key_bytes = sizeof(typename decltype(key)::type);
    switch (widest(type.key_bytes(), type.value_bytes())) {
      case 4:
        if constexpr (key_bytes == 4) body(key, std::integral_constant<int, items_per_thread(4)>{});
        return;
      case 8: return body(key, std::integral_constant<int, items_per_thread(8)>{});
      default: return body(key, std::integral_constant<int, items_per_thread(16)>{});
    }
  });
}

}  // namespace

KernelList partition_kernels() {
  KernelList list{address(totals_kernel)};
  for (const KeyWidth key_width : {KeyWidth::k32, KeyWidth::k64})
    for (const ValueWidth value_width : {ValueWidth::none, ValueWidth::v4, ValueWidth::v8, ValueWidth::v16}) {
      with_key_and_items({key_width, value_width}, [&](auto key, auto items) {
        list.push_back(address(count_kernel<typename decltype(key)::type, decltype(items)::value>));
      });
      with_record({key_width, value_width}, [&](auto key, auto value) {
        list.push_back(address(partition_kernel<typename decltype(key)::type, typename decltype(value)::type>));
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
  with_key_and_items(type, [&](auto key, auto items) {
    using Key = typename decltype(key)::type;
    count_kernel<Key, decltype(items)::value><<<static_cast<unsigned>(tiles), block_threads, 0, stream>>>(
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
    partition_kernel<Key, Value><<<static_cast<unsigned>(tiles), block_threads, 0, stream>>>(
        static_cast<const Key*>(from.keys), static_cast<const Value*>(from.values), count, splitters, tiles,
        static_cast<const std::uint64_t*>(scratch), to);
  });
  check_launch("partition");
}

}  // namespace linkwise::cuda
