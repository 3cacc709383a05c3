// Joins on one GPU: probing sorted keys with sorted keys, and writing the rows of the result.
//
// A block probes with a tile of keys, a smaller one for a longer build side. Between the tile's first and last key
// lies a range of the build side; a kernel before this one finds the ranges of all tiles, by two binary searches per
// tile. A range that fits is staged in shared memory. Each thread searches it for a few neighbouring keys, each by
// galloping from the one before it: so a run of equal keys on the build side costs the logarithm of its length, and
// an equal key on the probe side costs no search. join25 §3.3.3 does three binary searches in global memory for each
// key instead.
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/match_totals.cuh"
#include "linkwise/primitives/cuda/tile_search.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/matched_rows.hpp"

namespace linkwise::cuda {
namespace {

constexpr int most_items = 8;                           // keys per thread
constexpr int most_keys = most_items * block_threads;   // keys per tile, and rows of a window per block
constexpr int staged_keys = most_keys + most_keys / 2;  // keys of the build side that fit into shared memory

// Keys per thread, such that the range of a tile is likely to fit into shared memory.
int items_for(std::uint64_t count, std::uint64_t build_count) {
  int items = most_items;
  while (items > 1 && count * most_keys < build_count * static_cast<std::uint64_t>(items * block_threads)) items /= 2;
  return items;
}

template <typename Key>
__global__ void __launch_bounds__(block_threads)
    probe_kernel(const RawProbe probe, int items, const std::uint64_t* ranges, MatchTotals* totals) {
  __shared__ Key tile_keys[padded(most_keys) + 1];
  __shared__ Key range_keys[padded(staged_keys) + 1];
  const int tile = items * block_threads;
  const std::uint64_t begin = blockIdx.x * static_cast<std::uint64_t>(tile);
  const int present = static_cast<int>(min(probe.count - begin, static_cast<std::uint64_t>(tile)));
  const std::uint64_t low = ranges[2 * blockIdx.x], length = ranges[2 * blockIdx.x + 1] - low;
  const Key* keys = static_cast<const Key*>(probe.keys) + begin;
  const Key* build = static_cast<const Key*>(probe.build_keys) + low;
  for (int i = threadIdx.x; i < present; i += block_threads) tile_keys[padded(i)] = keys[i];
  const bool is_staged = length <= staged_keys;
  if (is_staged)
    for (int i = threadIdx.x; i < static_cast<int>(length); i += block_threads) range_keys[padded(i)] = build[i];
  __syncthreads();

  MatchTotals mine;
  const auto walk = [&](const auto& at) {
    std::uint64_t lower = 0, upper = 0;
    Key previous{};
    for (int j = 0; j < items; ++j) {
      const int i = static_cast<int>(threadIdx.x) * items + j;
      if (i >= present) break;
      const Key key = tile_keys[padded(i)];
      if (j == 0 || key != previous) {
        lower = j == 0 ? bound<false>(at, 0, length, key) : near_bound<false>(at, upper, length, key);
        upper = near_bound<true>(at, lower, length, key);
        previous = key;
      }
      note_matches(probe, begin + i, low + lower, low + upper, mine);
    }
  };
  if (is_staged) walk([&](std::uint64_t i) { return range_keys[padded(static_cast<int>(i))]; });
  else walk([&](std::uint64_t i) { return build[i]; });
  add_totals(mine, totals);
}

// Probes with keys in any order, each of which is searched in the whole build side.
template <typename Key>
__global__ void __launch_bounds__(block_threads) probe_anywhere_kernel(const RawProbe probe, MatchTotals* totals) {
  const Key *keys = static_cast<const Key*>(probe.keys), *build = static_cast<const Key*>(probe.build_keys);
  const auto at = [=](std::uint64_t i) { return build[i]; };
  MatchTotals mine;
  for (std::uint64_t row = global_thread(); row < probe.count; row += grid_threads()) {
    const Key key = keys[row];
    const std::uint64_t lower = bound<false>(at, 0, probe.build_count, key);
    note_matches(probe, row, lower, near_bound<true>(at, lower, probe.build_count, key), mine);
  }
  add_totals(mine, totals);
}

// Where in the result the output of the side's row begins.
__device__ std::uint64_t start_of(const RawEmitting& side, const RawEmitting& other, std::uint64_t row) {
  const std::uint64_t own = side.offsets[row];
  return other.offsets == nullptr ? own : own + other.offsets[side.first[row] & ~unmatched_bit];
}

__global__ void expand_kernel(const RawEmitting left, const RawEmitting right, const RawWindow window) {
  __shared__ std::uint64_t range[2];  // the left rows that the block's part of the window can belong to
  const auto row_at = [&](std::uint64_t position, std::uint64_t low, std::uint64_t high) {
    while (low < high) {  // the first row that begins after the position
      const std::uint64_t middle = low + (high - low) / 2;
      if (start_of(left, right, middle) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const std::uint64_t first = blockIdx.x * std::uint64_t{most_keys}, last = min(first + most_keys, window.count) - 1;
  if (threadIdx.x < 2) range[threadIdx.x] = row_at(window.begin + (threadIdx.x == 0 ? first : last), 0, left.count);
  __syncthreads();
  for (std::uint64_t i = first + threadIdx.x; i <= last; i += block_threads) {
    const std::uint64_t position = window.begin + i;
    const std::uint64_t next = row_at(position, range[0], range[1]);
    if (next == 0) continue;
    const std::uint64_t row = next - 1, within = position - start_of(left, right, row);
    if (within >= left.offsets[next] - left.offsets[row]) continue;  // a row of the right side
    const std::uint32_t match = left.first[row];
    window.left[i] = static_cast<std::uint32_t>(row);
    window.right[i] = (match & unmatched_bit) != 0 ? no_position : match + static_cast<std::uint32_t>(within);
  }
}

__global__ void expand_unmatched_kernel(const RawEmitting left, const RawEmitting right, const RawWindow window) {
  for (std::uint64_t row = global_thread(); row < right.count; row += grid_threads()) {
    if (right.offsets[row + 1] == right.offsets[row]) continue;
    const std::uint64_t position = start_of(right, left, row) - window.begin;
    if (position >= window.count) continue;  // also if it precedes the window: the difference wraps around
    window.left[position] = no_position;
    window.right[position] = static_cast<std::uint32_t>(row);
  }
}

template <typename Integer>
struct Widen {
  __host__ __device__ std::uint64_t operator()(Integer value) const { return static_cast<std::uint64_t>(value); }
};

template <typename Integer>
cudaError_t scan(void* scratch, std::size_t& bytes, const void* values, std::uint64_t* sums, std::uint64_t count,
                 cudaStream_t stream) {
  const auto widened = thrust::make_transform_iterator(static_cast<const Integer*>(values), Widen<Integer>{});
  return cub::DeviceScan::InclusiveSum(scratch, bytes, widened, sums, count, stream);
}

}  // namespace

KernelList match_kernels() {
  return {address(tile_ranges_kernel<std::uint32_t>),
          address(tile_ranges_kernel<std::uint64_t>),
          address(probe_kernel<std::uint32_t>),
          address(probe_kernel<std::uint64_t>),
          address(probe_anywhere_kernel<std::uint32_t>),
          address(probe_anywhere_kernel<std::uint64_t>),
          address(expand_kernel),
          address(expand_unmatched_kernel)};
}

std::uint64_t probe_scratch_bytes(std::uint64_t probing_rows) {
  return 16 * ceil_div(probing_rows, block_threads) + 16;
}

void probe(cudaStream_t stream, const RawProbe& probe, void* scratch, MatchTotals* totals) {
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream), "clear the totals");
  if (probe.count == 0) return;
  const int items = items_for(probe.count, probe.build_count), tile = items * block_threads;
  const std::uint64_t tiles = ceil_div(probe.count, static_cast<std::uint64_t>(tile));
  auto* ranges = static_cast<std::uint64_t*>(scratch);
  with_key(probe.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    if (!probe.keys_rise) {
      probe_anywhere_kernel<Key><<<grid_for(probe.count), block_threads, 0, stream>>>(probe, totals);
      return;
    }
    find_tile_ranges(stream, static_cast<const Key*>(probe.keys), probe.count,
                     static_cast<const Key*>(probe.build_keys), probe.build_count, tile, ranges);
    probe_kernel<Key><<<static_cast<unsigned>(tiles), block_threads, 0, stream>>>(probe, items, ranges, totals);
  });
  check_launch("probe");
}

std::uint64_t running_sums_scratch_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(scan<std::uint64_t>(nullptr, bytes, nullptr, nullptr, count, nullptr), "ask for the scratch of a scan");
  return bytes;
}

void running_sums(cudaStream_t stream, IntegerType type, const void* values, std::uint64_t count, std::uint64_t* sums,
                  void* scratch, std::uint64_t scratch_bytes) {
  check(cudaMemsetAsync(sums, 0, sizeof *sums, stream), "clear the first sum");
  if (count == 0) return;
  std::size_t bytes = scratch_bytes;
  if (type.bytes == 8) check(scan<std::uint64_t>(scratch, bytes, values, sums + 1, count, stream), "scan");
  else if (type.is_signed) check(scan<std::int32_t>(scratch, bytes, values, sums + 1, count, stream), "scan");
  else check(scan<std::uint32_t>(scratch, bytes, values, sums + 1, count, stream), "scan");
}

void expand(cudaStream_t stream, const RawEmitting& left, const RawEmitting& right, const RawWindow& window) {
  const auto blocks = static_cast<unsigned>(ceil_div(window.count, most_keys));
  expand_kernel<<<blocks, block_threads, 0, stream>>>(left, right, window);
  check_launch("expand");
}

void expand_unmatched(cudaStream_t stream, const RawEmitting& left, const RawEmitting& right, const RawWindow& window) {
  if (right.count == 0) return;
  expand_unmatched_kernel<<<grid_for(right.count), block_threads, 0, stream>>>(left, right, window);
  check_launch("expand unmatched");
}

}  // namespace linkwise::cuda
