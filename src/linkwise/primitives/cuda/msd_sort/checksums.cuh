// The checksum of the input, which the first level adds up while its keys lie in registers.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/layout.cuh"

namespace linkwise::cuda::msd {

/// The constant parts of the hashes of `count` records, which one thread adds.
__device__ __forceinline__ std::uint64_t constant_hashes(std::uint32_t count) {
  return threadIdx.x == 0 ? count * constant_hash : 0;
}
/// The hashes of a thread's keys among `count` of a tile, with the constant parts of all.
template <typename Key, int items>
__device__ __forceinline__ std::uint64_t hashes_of(const Key (&key)[items], std::uint32_t count) {
  const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
  std::uint64_t hashes = constant_hashes(count);
#pragma unroll
  for (int i = 0; i < items; ++i)
    if (level_threads * i < left) hashes += varying_hash(key[i], NoValue{});
  return hashes;
}

/// Called by whole warps: adds to a sum in shared memory.
__device__ __forceinline__ void add_hashes_of_warp(unsigned long long& sum, std::uint64_t hashes) {
  for (int i = 16; i > 0; i /= 2) hashes += __shfl_xor_sync(~0u, hashes, i);
  if (threadIdx.x % 32 == 0) atomicAdd(&sum, static_cast<unsigned long long>(hashes));
}

/// Called by one thread, after a block barrier.
__device__ inline void publish_checksum(std::uint64_t* to, unsigned long long sum) {
  if (sum != 0) atomicAdd(reinterpret_cast<unsigned long long*>(to), sum);
}

}  // namespace linkwise::cuda::msd
