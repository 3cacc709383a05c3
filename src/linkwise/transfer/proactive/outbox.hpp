// What a running kernel and an agent share: which chunks each block writes, and how many blocks have written each
// (proact21 §III-B).
//
// Counters increase over all epochs and are never reset. Agents, and streams (cuda/agents.hpp), that wait for a chunk
// compare its counter with the count at which it is ready. A block thus only increments the counter, and need not
// wait for the result.
#pragma once

#include <cstdint>

namespace linkwise::proactive {

/// The chunks that a block writes.
struct alignas(8) ChunksOfBlock {
  std::uint32_t first = 0, count = 0;
};

/// In the memory of the kernel's GPU.
struct Outbox {
  const ChunksOfBlock* blocks = nullptr;  ///< null: nothing is tracked
  const std::uint32_t* chunks = nullptr;  ///< indexed by `first`; null: `first` is a chunk, and the others follow it
  std::uint32_t* counters = nullptr;      ///< of each chunk, the blocks that have written it
  bool for_streams = false;               ///< streams, and not only this GPU's threads, wait for the counters
};

}  // namespace linkwise::proactive
