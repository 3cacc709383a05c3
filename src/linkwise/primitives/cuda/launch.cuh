// Launch helpers of the CUDA kernels.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise::cuda {

constexpr int block_threads = 256;

inline cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

inline int current_multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "ask for the current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "ask for multiprocessors");
  return count;
}

/// The attribute's minimum over all devices, whichever is current.
inline int least_of_devices(cudaDeviceAttr attribute) {
  int devices = 0, least = std::numeric_limits<int>::max();
  check(cudaGetDeviceCount(&devices), "count devices");
  for (int device = 0; device < devices; ++device) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, device), "ask for an attribute");
    least = std::min(least, value);
  }
  return least;
}

/// Blocks for a grid-stride loop over `count` elements: enough to fill the device, no more.
inline unsigned grid_for(std::uint64_t count) {
  const std::uint64_t needed = (count + block_threads - 1) / block_threads;
  const auto wanted = static_cast<std::uint64_t>(current_multiprocessors()) * 16;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(needed, 1, wanted));
}

/// Likewise, but no more blocks than run at once: with equal shares, a last wave that is not full wastes time.
template <auto kernel>
unsigned resident_grid_for(std::uint64_t count) {
  static const int of_multiprocessor = [] {
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block_threads, 0), "ask for occupancy");
    return blocks;
  }();
  return std::min(grid_for(count), static_cast<unsigned>(of_multiprocessor * current_multiprocessors()));
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

/// A kernel's address, for a KernelList.
template <typename Kernel>
const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

__device__ inline std::uint64_t global_thread() { return blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; }
__device__ inline std::uint64_t grid_threads() { return gridDim.x * std::uint64_t{blockDim.x}; }

}  // namespace linkwise::cuda
