// The agents on real GPUs. A polling agent's blocks take pieces of ready chunks, in the order in which the kernel's
// grid completes them, and store them to the peers, 16 bytes per thread. Copy engines are fed by streams that wait
// for the counter of each chunk.
//
// Measured on H200s, with 256 MiB from one to another and a kernel that takes as long as the copy; speedups are
// relative to copying after the kernel. Waiting for a counter and starting a copy costs a stream 4 to 5 µs, so chunks
// of 1 MiB each reach only 0.7, and 0.95 on two streams; chunks of 1, 2, 3 … MiB reach 1.76. Stores reach 1.87 to
// 1.90, since a kernel's stores, by 16-byte words or the bulk copy engine, reach at most 369 GB/s, where a copy
// reaches 387 GB/s. Loads from the destination GPU are no faster, and copying some chunks while the others were
// stored took longer than the stores alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "linkwise/transfer/proactive/mapping.hpp"
#include "linkwise/transfer/proactive/sending_task.hpp"

namespace linkwise::proactive {

inline constexpr int copy_streams = 2;  // for each peer: one waits while the other's copy runs

/// Loads the agent's kernel in advance, since a kernel's first launch waits for running kernels.
void load_polling_agent();
/// Sends every chunk of an epoch; ends when all are sent, or when waiting for one has timed out.
void start_polling(void* stream, const SendingTask& task, int threads);

struct AwaitedCopy {
  const std::uint32_t* counter;  ///< null: no wait
  std::uint32_t ready;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};
/// Queues the copies one after the other, each behind a wait until its counter has reached `ready`.
void queue_copies(void* stream, std::span<const AwaitedCopy> copies, int from_gpu, int to_gpu);

/// Allocates unified memory, mapped in advance on all these GPUs (proact21 §IV-B). @throws OutOfMemoryError,
/// DeviceError.
std::shared_ptr<void> allocate_unified(std::uint64_t bytes, std::span<const int> gpus);
/// Prefetches pages to a GPU for a kernel of the stream to write, and drops their replicas, which would otherwise
/// fault one by one. Blocks until the stream is idle, since memory advice is not stream-ordered.
void take_unified(void* stream, std::byte* data, const ByteRange& bytes, int gpu);
/// Replicates pages that the stream's kernels have written to a peer; blocks likewise.
void replicate_unified(void* stream, std::byte* data, std::span<const ByteRange> pages, int peer);

}  // namespace linkwise::proactive
