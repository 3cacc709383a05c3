// The agent `unified`: unified memory with all hints, the baseline of proact21 §IV-B. Pages are mapped beforehand,
// replicated where they are read, and prefetched to their readers after the kernel.
#include <cuda_runtime_api.h>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/transfer/proactive/cuda/agents.hpp"

namespace linkwise::proactive {
namespace {

cudaMemLocation on(int gpu) { return {cudaMemLocationTypeDevice, gpu}; }

void advise(std::byte* data, const ByteRange& bytes, cudaMemoryAdvise advice, int gpu) {
  check(cudaMemAdvise(data + bytes.first, bytes.second - bytes.first, advice, on(gpu)), "advise about unified memory");
}

void prefetch(cudaStream_t stream, std::byte* data, const ByteRange& bytes, int gpu) {
  check(cudaMemPrefetchAsync(data + bytes.first, bytes.second - bytes.first, on(gpu), 0, stream),
        "prefetch unified memory");
}

}  // namespace

std::shared_ptr<void> allocate_unified(std::uint64_t bytes, std::span<const int> gpus) {
  void* memory = nullptr;
  check(cudaMallocManaged(&memory, bytes), "allocate unified memory");
  std::shared_ptr<void> owner(memory, [](void* allocated) { (void)cudaFree(allocated); });
  for (const int gpu : gpus) advise(static_cast<std::byte*>(memory), {0, bytes}, cudaMemAdviseSetAccessedBy, gpu);
  return owner;
}

void take_unified(void* stream, std::byte* data, const ByteRange& bytes, int gpu) {
  auto* const native = static_cast<cudaStream_t>(stream);
  check(cudaStreamSynchronize(native), "wait for kernels");
  advise(data, bytes, cudaMemAdviseUnsetReadMostly, gpu);
  prefetch(native, data, bytes, gpu);
}

void replicate_unified(void* stream, std::byte* data, std::span<const ByteRange> pages, int peer) {
  auto* const native = static_cast<cudaStream_t>(stream);
  check(cudaStreamSynchronize(native), "wait for the kernel");
  for (const ByteRange& bytes : pages) {
    advise(data, bytes, cudaMemAdviseSetReadMostly, peer);
    prefetch(native, data, bytes, peer);
  }
}

}  // namespace linkwise::proactive
