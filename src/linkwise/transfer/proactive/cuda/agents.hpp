// The agents on real GPUs. A polling agent's blocks take pieces of ready chunks from the kernel's queue and store them to
// the peers, 16 bytes a thread. Copy engines are fed through streams that wait for flags.
//
// Measured on H200s, 256 MiB from one to another while the kernel that makes it takes as long as a copy: waiting for a
// flag and starting a copy costs a stream 4 to 5 µs, so that 1 MiB chunks alone reach 0.7 of copying after the kernel,
// and on two streams 0.95; chunks that grow to 16 MiB and shrink again 1.70. Stores reach 1.86, with or without the bulk
// copy engine, since no kernel's stores go faster than 368 of a copy's 391 GB/s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/transfer/proactive/outbox.hpp"
#include "linkwise/transfer/proactive/writers.hpp"

namespace linkwise::proactive {

inline constexpr int copy_streams = 2;  // for each peer: one waits while the other's copy runs

struct PollingTask {
  Outbox outbox;
  std::uint32_t* head = nullptr;
  std::uint32_t* failure = nullptr;  // set to 1, and to the number of the piece that never came
  std::uint64_t chunk_bytes = 0, begin = 0, end = 0;
  const std::uint32_t* wanted = nullptr;  // of each chunk: bits of `to`
  const std::byte* from = nullptr;
  std::byte* to[most_gpus] = {};
  int peers = 0;
};

/// Sends every chunk of an epoch; ends when all are sent, or after a second without a new one.
void start_polling(void* stream, const PollingTask& task, int threads);

struct FlaggedCopy {
  const std::uint32_t* flag;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};
/// Each copy once its flag has come to `epoch`, one after the other.
void queue_copies(void* stream, std::span<const FlaggedCopy> copies, std::uint32_t epoch, int from_gpu, int to_gpu);

}  // namespace linkwise::proactive
