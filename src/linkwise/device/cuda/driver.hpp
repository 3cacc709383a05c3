// What the CUDA runtime does not offer: flags in memory that a stream waits for and sets.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise::driver {

/// Whether anybody in this process has loaded CUDA's driver.
bool is_loaded();

/// Whether GPU memory comes from cudaMalloc, and so is mapped for all GPUs that were given access to its GPU's memory.
bool is_from_cuda_malloc(const void* data);

/// The stream sets the flag when everything before it has run and is visible. The flag lies in pinned memory.
void set_flag(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value);
/// Later work of the stream runs once the flag has reached the value: flag - value ≥ 0, as signed 32-bit integers.
void wait_for_flag(cudaStream_t stream, const std::uint32_t* flag, std::uint32_t value);

}  // namespace linkwise::driver
