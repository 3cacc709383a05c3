#include "linkwise/device/cuda/pinned.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>

#include "linkwise/device/arena.hpp"
#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t huge_page = 2 << 20;

// Faults the pages in with all cores; harmless where the kernel does not know the advice.
void populate(std::byte* data, std::uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto pages = static_cast<std::int64_t>(bytes / huge_page);
#pragma omp parallel for schedule(dynamic, 8) num_threads(team())
  for (std::int64_t page = 0; page < pages; ++page)
    (void)madvise(data + page * static_cast<std::int64_t>(huge_page), huge_page, MADV_POPULATE_WRITE);
#endif
}

// The allocations of PinnedMemory: pinned where CUDA can be used, otherwise treated as pinned, for simulations.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, std::uint64_t> ranges;  // first byte → bytes
};

Registry& registry() {
  static Registry the_registry;
  return the_registry;
}

}  // namespace

bool bind_to_node(std::byte* data, std::uint64_t bytes, int node) {
  std::array<unsigned long, 16> nodes{};
  constexpr int bits = 8 * sizeof(unsigned long);
  if (node >= static_cast<int>(nodes.size()) * bits) {
    errno = EINVAL;
    return false;
  }
  nodes[static_cast<std::size_t>(node / bits)] = 1UL << (node % bits);
  return syscall(SYS_mbind, data, bytes, MPOL_BIND, nodes.data(), nodes.size() * bits, 0) == 0;
}

PinnedMemory::PinnedMemory(std::uint64_t bytes, int numa_node)
    : bytes_(align_up(std::max<std::uint64_t>(bytes, 1), huge_page)) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw OutOfMemoryError("the host cannot give " + std::to_string(bytes) + " bytes; free memory first");
  data_ = static_cast<std::byte*>(mapped);
  if (numa_node >= 0 && !bind_to_node(data_, bytes_, numa_node)) {
    munmap(data_, bytes_);
    throw UsageError("memory of NUMA node " + std::to_string(numa_node) +
                     " cannot be had: the system has no such node, or does not let this process choose one");
  }
  if (bytes_ >= 2 * huge_page) (void)madvise(data_, bytes_, MADV_HUGEPAGE);
  {
    const std::lock_guard lock(registry().mutex);
    registry().ranges[data_] = bytes_;
  }
  if (count_cuda_gpus() == 0) return;
  populate(data_, bytes_);
  const cudaError_t status = cudaHostRegister(data_, bytes_, cudaHostRegisterPortable);
  if (status != cudaSuccess) {
    {
      const std::lock_guard lock(registry().mutex);
      registry().ranges.erase(data_);
    }
    munmap(data_, bytes_);
    check(status, ("pin " + std::to_string(bytes) + " bytes of host memory").c_str());
  }
  registered_ = true;
}

PinnedMemory::~PinnedMemory() {
  {
    const std::lock_guard lock(registry().mutex);
    registry().ranges.erase(data_);
  }
  if (registered_) (void)cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

bool is_pinned(const void* data) {
  {
    const std::lock_guard lock(registry().mutex);
    auto after = registry().ranges.upper_bound(static_cast<const std::byte*>(data));
    if (after != registry().ranges.begin()) {
      const auto& [begin, bytes] = *--after;
      if (data < begin + bytes) return true;
    }
  }
  // If nothing in the process uses CUDA, nothing is pinned; asking would load the driver, which takes half a second.
  if (!driver::is_loaded() || count_cuda_gpus() == 0) return false;
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, data);
  (void)cudaGetLastError();
  return status == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

}  // namespace linkwise
