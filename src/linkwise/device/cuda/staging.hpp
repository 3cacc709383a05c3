// Copies between pageable host memory and a device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

constexpr std::uint64_t staging_bytes = 2 << 20;  // fits into the caches on the way

/// Enqueues the copy without ever blocking the caller, as CUDA's own copies would: the stream itself moves each
/// piece between the pageable memory and `buffer`, pinned and of staging_bytes, by a host function.
void copy_through(std::byte* buffer, cudaStream_t stream, const MemoryView& to, const MemoryView& from);

}  // namespace linkwise
