// Adds up what the threads of a block have found.
#pragma once

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/types.hpp"

namespace linkwise::cuda {

/// The counter as the type that atomicAdd takes.
__device__ inline unsigned long long* counter(std::uint64_t* total) {
  return reinterpret_cast<unsigned long long*>(total);
}

__device__ inline void add_in_warp(std::uint64_t mine, std::uint64_t* total) {
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % 32 == 0 && mine != 0) atomicAdd(counter(total), static_cast<unsigned long long>(mine));
}

// Adds up the threads' totals per block, in shared memory, and then over all blocks.
__device__ inline void add_totals(const MatchTotals& mine, MatchTotals* totals) {
  __shared__ MatchTotals of_block;
  if (threadIdx.x == 0) of_block = {};
  __syncthreads();
  add_in_warp(mine.matches, &of_block.matches);
  add_in_warp(mine.matched_rows, &of_block.matched_rows);
  add_in_warp(mine.probe_sum, &of_block.probe_sum);
  add_in_warp(mine.build_sum, &of_block.build_sum);
  __syncthreads();
  static_assert(sizeof(MatchTotals) == 4 * sizeof(std::uint64_t));
  if (threadIdx.x < 4) {
    const std::uint64_t sum = reinterpret_cast<const std::uint64_t*>(&of_block)[threadIdx.x];
    if (sum != 0) atomicAdd(counter(&totals->matches) + threadIdx.x, sum);
  }
}

}  // namespace linkwise::cuda
