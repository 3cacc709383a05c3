// The CUDA runtime's memory: an arena for each GPU, and one of pinned host memory.
#include "linkwise/device/cuda/cuda_runtime_parts.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "linkwise/device/cuda/current_device.hpp"

namespace linkwise {

Arena& CudaRuntime::arena(Place place) { return place.is_gpu() ? *device(place).arena : *pinned_; }

bool CudaRuntime::peers_can_read(std::span<const int> gpus) const {
  for (const int reader : gpus)
    for (const int owner : gpus) {
      int possible = 0;
      if (reader == owner) continue;
      if (cudaDeviceCanAccessPeer(&possible, reader, owner) != cudaSuccess || possible == 0) return false;
    }
  return true;
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
  const std::uint64_t idle = target.arena->reserved() - target.arena->in_use();
  const std::uint64_t possible = free_bytes + idle;
  return memory_limit_ == 0 ? possible
                            : std::min(possible, memory_limit_ - std::min(memory_limit_, target.arena->in_use()));
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
