// Builds a hash table of a partition's build keys in shared memory, and looks up the probe keys in it.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/match_totals.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/matched_rows.hpp"

namespace linkwise::cuda {
namespace {

constexpr unsigned most_rows = 2048, slots = 2 * most_rows;  // build rows at once; slots of the hash table

template <typename Key>
__global__ void hash_keys_kernel(const Key* from, Key* to, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) to[i] = hash_of(from[i]);
}

// The position of the first key of that partition or a later one.
template <typename Key>
__device__ std::uint64_t begin_of(const Key* keys, std::uint64_t count, std::uint64_t partition, int shift) {
  std::uint64_t low = 0, high = count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (std::uint64_t{keys[middle]} >> shift < partition) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <typename Key>
__global__ void __launch_bounds__(block_threads) hash_probe_kernel(const RawHashProbe probe, MatchTotals* totals) {
  __shared__ Key table_keys[most_rows];
  __shared__ unsigned table[slots];  // rows of the build side, numbered from 1; 0: empty
  __shared__ std::uint64_t ranges[4];
  const auto *keys = static_cast<const Key*>(probe.keys), *build = static_cast<const Key*>(probe.build_keys);
  const int shift = 8 * static_cast<int>(sizeof(Key)) - probe.bits;
  MatchTotals mine;
  for (std::uint64_t partition = blockIdx.x; partition < 1ULL << probe.bits; partition += gridDim.x) {
    __syncthreads();
    if (threadIdx.x < 4)
      ranges[threadIdx.x] = threadIdx.x < 2 ? begin_of(build, probe.build_count, partition + threadIdx.x, shift)
                                            : begin_of(keys, probe.count, partition + threadIdx.x - 2, shift);
    __syncthreads();
    const std::uint64_t last = ranges[1];
    if (ranges[2] == ranges[3]) continue;
    for (std::uint64_t first = ranges[0]; first < last; first += most_rows) {
      const auto rows = static_cast<unsigned>(min(last - first, std::uint64_t{most_rows}));
      for (unsigned s = threadIdx.x; s < slots; s += block_threads) table[s] = 0;
      __syncthreads();
      for (unsigned i = threadIdx.x; i < rows; i += block_threads) {
        const Key key = build[first + i];
        table_keys[i] = key;
        // Keys of a partition agree in the upper bits; the lower ones are as good as random.
        for (unsigned s = static_cast<unsigned>(key) % slots; atomicCAS(&table[s], 0, i + 1) != 0;) s = (s + 1) % slots;
      }
      __syncthreads();
      for (std::uint64_t i = ranges[2] + threadIdx.x; i < ranges[3]; i += block_threads) {
        const Key key = keys[i];
        std::uint64_t found = 0;
        for (unsigned s = static_cast<unsigned>(key) % slots; table[s] != 0; s = (s + 1) % slots) {
          const unsigned row = table[s] - 1;
          if (table_keys[row] != key) continue;
          ++found;
          if (probe.build_values != nullptr)
            mine.build_sum += integer_at(probe.build_values, probe.build_value_type, first + row);
        }
        mine.matches += found;
        if (found > 0 && probe.values != nullptr)
          mine.probe_sum += found * integer_at(probe.values, probe.value_type, i);
      }
      __syncthreads();
    }
  }
  add_totals(mine, totals);
}

}  // namespace

KernelList hash_match_kernels() {
  return {address(hash_keys_kernel<std::uint32_t>), address(hash_keys_kernel<std::uint64_t>),
          address(hash_probe_kernel<std::uint32_t>), address(hash_probe_kernel<std::uint64_t>)};
}

void hash_keys(cudaStream_t stream, KeyWidth width, const void* from, void* to, std::uint64_t count) {
  with_key(width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    hash_keys_kernel<Key>
        <<<grid_for(count), block_threads, 0, stream>>>(static_cast<const Key*>(from), static_cast<Key*>(to), count);
  });
  check_launch("hash");
}

void hash_probe(cudaStream_t stream, const RawHashProbe& probe, MatchTotals* totals) {
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream), "clear the totals");
  if (probe.count == 0 || probe.build_count == 0) return;
  const std::uint64_t partitions = 1ULL << probe.bits;
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>(partitions, static_cast<std::uint64_t>(current_multiprocessors()) * 32));
  with_key(probe.width, [&](auto tag) {
    hash_probe_kernel<typename decltype(tag)::type><<<blocks, block_threads, 0, stream>>>(probe, totals);
  });
  check_launch("hash probe");
}

}  // namespace linkwise::cuda
