// The agents on real GPUs. A polling agent's blocks take pieces of ready chunks, in the order in which the kernel's
// grid makes them, and store them to the peers, 16 bytes a thread. Copy engines are fed through streams that wait for a
// chunk's counter.
//
// Measured on H200s, 256 MiB from one to another while the kernel that makes it takes as long as a copy: waiting for a
// counter and starting a copy costs a stream 4 to 5 µs, so that 1 MiB chunks alone reach 0.7 of copying after the
// kernel, and on two streams 0.95; chunks of 1, 2, 3 … MiB 1.76. Stores reach 1.87 to 1.90, since no kernel's stores,
// by 16-byte words or the bulk copy engine, go faster than 369 of a copy's 387 GB/s. Nor do loads from the other side;
// and copies of some chunks beside the stores of the others took longer than the stores alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "linkwise/transfer/proactive/mapping.hpp"
#include "linkwise/transfer/proactive/sending_task.hpp"

namespace linkwise::proactive {

inline constexpr int copy_streams = 2;  // for each peer: one waits while the other's copy runs

/// Have the agent's kernel loaded: a first launch waits for kernels that run.
void load_polling_agent();
/// Sends every chunk of an epoch; ends when all are sent, or when one does not come.
void start_polling(void* stream, const SendingTask& task, int threads);

struct AwaitedCopy {
  const std::uint32_t* counter;  ///< null: at once
  std::uint32_t ready;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};
/// Each copy once its counter says so, one after the other.
void queue_copies(void* stream, std::span<const AwaitedCopy> copies, int from_gpu, int to_gpu);

/// Unified memory that all these GPUs have mapped beforehand (proact21 §IV-B). @throws OutOfMemoryError, DeviceError.
std::shared_ptr<void> allocate_unified(std::uint64_t bytes, std::span<const int> gpus);
/// Brings pages to a GPU for a kernel of the stream to write; replicas are given up, which would fault one by one.
/// Waits for the stream: advice is given at once, and not in a stream's order.
void take_unified(void* stream, std::byte* data, const ByteRange& bytes, int gpu);
/// Gives a peer a replica of pages that the stream's kernels have written; waits as well.
void replicate_unified(void* stream, std::byte* data, std::span<const ByteRange> pages, int peer);

}  // namespace linkwise::proactive
