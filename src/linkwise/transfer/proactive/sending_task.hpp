// What sends a GPU's chunks: what an agent's threads, and blocks that launch such threads, have to know.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linkwise/transfer/proactive/writers.hpp"

namespace linkwise::proactive {

/// What an agent has to know of a chunk, in one load. It is ready when its counter has come to writers · epoch.
struct alignas(16) ExpectedChunk {
  std::uint32_t chunk = 0;
  std::uint32_t writers = 0;
  std::uint32_t wanted = 0;  ///< bits of SendingTask::to
  std::uint32_t unused = 0;
};

struct SendingTask {
  const std::uint32_t* counters = nullptr;  // of all chunks
  const ExpectedChunk* expected = nullptr;  // in the order in which they should come; of launching blocks, of all
  std::uint32_t chunks = 0;                 // that are expected
  std::uint32_t epoch = 0;
  std::uint32_t turn = 0;  // counts the agent's launches, which are not in every epoch
  std::uint64_t chunk_bytes = 0, begin = 0, end = 0;
  // In even and in odd turns: pieces that the agent's blocks have taken, or blocks of a kernel that launches; and the
  // threads that send, of a polling agent, or for each chunk.
  std::uint32_t* taken = nullptr;
  std::uint32_t* senders = nullptr;
  std::uint32_t* failure = nullptr;  // becomes 1 + the chunk that somebody gave up waiting for, or launching for
  std::uint64_t patience_ns = 0;     // for a chunk
  const std::byte* from = nullptr;
  std::byte* to[most_gpus] = {};
  int peers = 0;
};

/// What a launch passes on: the task lies in the GPU's memory, but for what each epoch has of its own.
struct LaunchedTask {
  const SendingTask* task = nullptr;
  std::uint32_t epoch = 0, turn = 0;
};

}  // namespace linkwise::proactive
