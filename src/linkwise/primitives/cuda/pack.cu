// Packs columns of integers into one key.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/integers.hpp"

namespace linkwise::cuda {
namespace {

using Counter = unsigned long long;  // the 64-bit type that atomics take

__global__ void clear_range_kernel(CodeRange* range) { *range = {}; }

__device__ void widen(CodeRange& range, const CodeRange& by) {
  atomicMin(reinterpret_cast<Counter*>(&range.least), static_cast<Counter>(by.least));
  atomicMax(reinterpret_cast<Counter*>(&range.greatest), static_cast<Counter>(by.greatest));
}

__global__ void find_range_kernel(IntegerType type, const void* column, std::uint64_t count, CodeRange* range) {
  CodeRange mine;
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const std::uint64_t code = code_at(column, type, i);
    mine = {min(mine.least, code), max(mine.greatest, code)};
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const std::uint64_t least = __shfl_down_sync(~0U, mine.least, offset),
                        greatest = __shfl_down_sync(~0U, mine.greatest, offset);
    mine = {min(mine.least, least), max(mine.greatest, greatest)};
  }
  __shared__ CodeRange of_block;  // so that few threads meet at the range itself
  if (threadIdx.x == 0) of_block = {};
  __syncthreads();
  if (threadIdx.x % 32 == 0) widen(of_block, mine);
  __syncthreads();
  if (threadIdx.x == 0) widen(*range, of_block);
}

template <typename Key>
__global__ void pack_kernel(Packing packing, const void* column, Key* keys, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    keys[i] = static_cast<Key>(packed(packing.is_first ? 0 : keys[i], packing, column, i));
}

}  // namespace

KernelList packing_kernels() {
  return {address(clear_range_kernel), address(find_range_kernel), address(pack_kernel<std::uint32_t>),
          address(pack_kernel<std::uint64_t>)};
}

void find_range(cudaStream_t stream, IntegerType type, const void* column, std::uint64_t count, CodeRange* range) {
  clear_range_kernel<<<1, 1, 0, stream>>>(range);
  find_range_kernel<<<grid_for(count), block_threads, 0, stream>>>(type, column, count, range);
  check_launch("find range");
}

void pack(cudaStream_t stream, const Packing& packing, const void* column, KeyWidth key_width, void* keys,
          std::uint64_t count) {
  with_key(key_width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    pack_kernel<Key><<<grid_for(count), block_threads, 0, stream>>>(packing, column, static_cast<Key*>(keys), count);
  });
  check_launch("pack");
}

}  // namespace linkwise::cuda
