// What a running kernel and an agent share: which chunks each block writes, and how many blocks have written each
// (proact21 §III-B).
//
// Counters count up over all epochs, so that nothing is ever reset, and whoever waits for a chunk compares its counter
// with the count that makes it ready: agents, and streams (cuda/agents.hpp). So a block only adds, and waits for no
// answer.
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
  const std::uint32_t* chunks = nullptr;  ///< where `first` is a place; null: it is a chunk, and the others follow it
  std::uint32_t* counters = nullptr;      ///< of each chunk, the blocks that have written it
  bool for_streams = false;               ///< other than this GPU's threads wait for the counters
};

}  // namespace linkwise::proactive
