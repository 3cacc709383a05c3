// What a running kernel and an agent share: which chunks each block writes, and how many blocks have written each
// (proact21 §III-B).
//
// Counters count up over all epochs, so that nothing is ever reset, and whoever waits for a chunk compares its counter
// with the count that makes it ready: agents, and streams (cuda/agents.hpp). So a block only adds, and waits for no
// answer.
#pragma once

#include <cstdint>

#include "linkwise/transfer/proactive/block.hpp"

namespace linkwise::proactive {

/// In the memory of the kernel's GPU.
struct Outbox {
  const std::uint32_t* first = nullptr;   ///< the chunks of block b are chunks[first[b]] to chunks[first[b + 1]]
  const std::uint32_t* chunks = nullptr;  ///< null: nothing is tracked
  std::uint32_t* counters = nullptr;      ///< of each chunk, the blocks that have written it
  bool for_streams = false;               ///< other than this GPU's threads wait for the counters
};

#ifdef __CUDACC__

/// Counts a block's chunks when it is done. What to count is looked up when the block begins, so that its end, when
/// nothing else is left to do, is short.
class BlockCount {
 public:
  __device__ BlockCount(const Outbox& box, std::uint32_t block) : box_(box) {
    if (box.chunks == nullptr || threadIdx.x >= 32) return;
    next_ = box.first[block] + threadIdx.x;
    end_ = box.first[block + 1];
    if (next_ < end_) chunk_ = box.chunks[next_];
  }

  /// To be called by all threads. The barrier orders their stores before the first warp's releases, so whoever sees the
  /// count sees the stores.
  __device__ void done() {
    if (box_.chunks == nullptr) return;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    for (; next_ < end_; next_ += 32, chunk_ = next_ < end_ ? box_.chunks[next_] : 0) {
      std::uint32_t* const counter = box_.counters + chunk_;
      if (box_.for_streams) asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      else asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    }
  }

 private:
  const Outbox& box_;
  std::uint32_t next_ = 0, end_ = 0, chunk_ = 0;
};

#endif

}  // namespace linkwise::proactive
