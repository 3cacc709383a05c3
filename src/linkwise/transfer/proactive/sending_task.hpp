// The task of sending a GPU's chunks, for an agent's threads and for blocks that launch such threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linkwise/transfer/proactive/writers.hpp"

namespace linkwise::proactive {

/// A chunk's entry for an agent, in one load. The chunk is ready when its counter has reached writers · epoch.
struct alignas(16) ExpectedChunk {
  std::uint32_t chunk = 0;
  std::uint32_t writers = 0;
  std::uint32_t wanted = 0;  ///< a bit mask of the peers in SendingTask::to
  std::uint32_t unused = 0;
};

struct SendingTask {
  const std::uint32_t* counters = nullptr;  // of all chunks
  const ExpectedChunk* expected = nullptr;  // by expected completion; for launching blocks, all chunks by number
  std::uint32_t chunks = 0;                 // number of expected chunks
  std::uint32_t epoch = 0;
  std::uint32_t turn = 0;  // number of the agent's launch; not every epoch has one
  std::uint64_t chunk_bytes = 0, begin = 0, end = 0;
  // Two counters each, for even and odd turns. `taken`: the pieces that the agent's blocks have taken, or the blocks
  // of the kernel if it launches the senders. `senders`: the threads that send, in all (polling) or per chunk
  // (dynamic).
  std::uint32_t* taken = nullptr;
  std::uint32_t* senders = nullptr;
  std::uint32_t* failure = nullptr;  // set to 1 + the chunk whose wait or launch was given up
  std::uint64_t patience_ns = 0;     // for a chunk
  const std::byte* from = nullptr;
  std::byte* to[most_gpus] = {};
  int peers = 0;
};

/// The arguments of a launch: the task in GPU memory, and the fields that change with each epoch.
struct LaunchedTask {
  const SendingTask* task = nullptr;
  std::uint32_t epoch = 0, turn = 0;
};

}  // namespace linkwise::proactive
