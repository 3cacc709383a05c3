// What a running kernel and an agent share: which chunks each block writes, how many blocks each chunk still waits for,
// and which chunks are ready (proact21 §III-B).
#pragma once

#include <cstdint>

#include "linkwise/transfer/proactive/block.hpp"

namespace linkwise::proactive {

/// In the memory of the kernel's GPU. Counters count up, over all epochs, so that nothing has to be reset.
struct Outbox {
  const std::uint32_t* first = nullptr;   ///< the chunks of block b are chunks[first[b]] to chunks[first[b + 1]]
  const std::uint32_t* chunks = nullptr;  ///< null: nothing is tracked
  const std::uint32_t* writers = nullptr;
  std::uint32_t* counters = nullptr;
  std::uint64_t* queue = nullptr;  ///< of ready chunks: (epoch << 32 | chunk); null: flags are set
  std::uint32_t* tail = nullptr;
  std::uint32_t capacity = 0;      ///< of the queue: as many as chunks are written in an epoch
  std::uint32_t* flags = nullptr;  ///< of each chunk, the last epoch in which it was ready
  std::uint32_t epoch = 0;
};

#ifdef __CUDACC__

/// To be called by all threads of a block at its end. Whoever then reads a chunk that is ready sees all stores to it:
/// the barrier orders the block's before its first warp's fence, which comes before the count.
__device__ inline void block_is_done(const Outbox& box, std::uint32_t block) {
  if (box.chunks == nullptr) return;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  for (std::uint32_t at = box.first[block] + threadIdx.x; at < box.first[block + 1]; at += 32) {
    const std::uint32_t chunk = box.chunks[at];
    __threadfence();
    if (atomicAdd(&box.counters[chunk], 1) + 1 != box.writers[chunk] * box.epoch) continue;
    if (box.queue != nullptr) {
      __threadfence();
      const std::uint32_t slot = atomicAdd(box.tail, 1) % box.capacity;
      const std::uint64_t entry = static_cast<std::uint64_t>(box.epoch) << 32 | chunk;
      asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(box.queue + slot), "l"(entry) : "memory");
    } else {
      __threadfence_system();
      asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(box.flags + chunk), "r"(box.epoch) : "memory");
    }
  }
}

#endif

}  // namespace linkwise::proactive
