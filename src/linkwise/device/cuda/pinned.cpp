#include "linkwise/device/cuda/pinned.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "linkwise/device/arena.hpp"
#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t huge_page = 2 << 20;

// Faults the pages in with all cores; harmless where the kernel does not know the advice.
void populate(std::byte* data, std::uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto pages = static_cast<std::int64_t>(bytes / huge_page);
#pragma omp parallel for schedule(dynamic, 8)
  for (std::int64_t page = 0; page < pages; ++page)
    (void)madvise(data + page * static_cast<std::int64_t>(huge_page), huge_page, MADV_POPULATE_WRITE);
#endif
}

}  // namespace

PinnedMemory::PinnedMemory(std::uint64_t bytes) : bytes_(align_up(std::max<std::uint64_t>(bytes, 1), huge_page)) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw OutOfMemoryError("the host cannot give " + std::to_string(bytes) + " bytes; free memory first");
  data_ = static_cast<std::byte*>(mapped);
  if (bytes_ >= 2 * huge_page) (void)madvise(data_, bytes_, MADV_HUGEPAGE);
  if (count_cuda_gpus() == 0) return;
  populate(data_, bytes_);
  const cudaError_t status = cudaHostRegister(data_, bytes_, cudaHostRegisterPortable);
  if (status != cudaSuccess) {
    munmap(data_, bytes_);
    check(status, ("pin " + std::to_string(bytes) + " bytes of host memory").c_str());
  }
  registered_ = true;
}

PinnedMemory::~PinnedMemory() {
  if (registered_) (void)cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

bool is_pinned(const void* data) {
  if (count_cuda_gpus() == 0) return false;
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, data);
  (void)cudaGetLastError();
  return status == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

}  // namespace linkwise
