// The CUDA runtime's memory: an arena for each GPU, and one of pinned host memory.
#include "linkwise/device/cuda/cuda_runtime_parts.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "linkwise/device/cuda/current_device.hpp"
#include "linkwise/device/cuda/driver.hpp"

namespace linkwise {

Arena& CudaRuntime::arena(Place place) { return place.is_gpu() ? *device(place).arena : *pinned_; }

bool CudaRuntime::reach_each_other(std::span<const int> gpus) const {
  return std::ranges::all_of(gpus, [&](int gpu) {
    return std::ranges::all_of(gpus, [&](int other) { return devices_.at(gpu)->reaches.at(other); });
  });
}

bool CudaRuntime::is_mapped_for_peers(const MemoryView& view) const {
  return view.allocation != 0 || driver::is_from_cuda_malloc(view.data);
}

void CudaRuntime::take_memory_from(GpuMemory memory) {
  memory_ = std::move(memory);
  for (const auto& each : devices_)
    if (each->arena)
      each->arena = std::make_unique<Arena>(each->place.name(), memory_.of(each->place.index), device_alignment,
                                            memory_limit_ == 0 ? unlimited : memory_limit_);
}

std::uint64_t CudaRuntime::available(Place place) {
  if (!place.is_gpu()) return unlimited;
  Device& target = device(place);
  const CurrentDevice current(place.index);
  std::size_t free_bytes = 0, total = 0;
  if (memory_.available) free_bytes = memory_.available(place.index);
  else check(cudaMemGetInfo(&free_bytes, &total), "ask for free memory");
  return target.arena->largest_allocation(free_bytes);
}

std::uint64_t CudaRuntime::reserved(Place place) { return arena(place).reserved(); }

void CudaRuntime::set_memory_limit(std::uint64_t bytes_per_gpu) {
  memory_limit_ = bytes_per_gpu;
  for (const auto& each : devices_)
    if (each->arena) each->arena->set_limit(bytes_per_gpu == 0 ? unlimited : bytes_per_gpu);
}

void CudaRuntime::reserve(Place place, std::uint64_t bytes) {
  const CurrentDevice kept;
  arena(place).reserve(bytes);
}

void CudaRuntime::trim() {
  synchronize();  // this also releases retired buffers
  for (const auto& each : devices_)
    if (each->arena) each->arena->trim();
  pinned_->trim();
}

MemoryView CudaRuntime::allocate_memory(Place place, std::uint64_t bytes, std::string_view) {
  const CurrentDevice kept;
  return {place, arena(place).allocate(bytes), bytes, 1, false};
}

void CudaRuntime::release_memory(const MemoryView& view) noexcept {
  try {
    arena(view.place).release(view.data);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "linkwise: %s\n", error.what());
  }
}

}  // namespace linkwise
