// An agent that launches a kernel for each chunk from the device (proact21 §III-C). There the block that writes a chunk
// last launches it; here a thread that waits for the chunks does, so that only this file is compiled with relocatable
// device code, and no kernel of a user's.
#include <cuda_runtime.h>

#include <algorithm>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/transfer/proactive/cuda/sending.cuh"

namespace linkwise::proactive {
namespace {

constexpr int block_threads = 256, words_at_once = 8;

__global__ void __launch_bounds__(block_threads) send_chunk(PollingTask task, ExpectedChunk expected) {
  const std::uint64_t begin = begin_of_chunk(task, expected.chunk);
  const Piece piece{max(begin, task.begin), min(begin + task.chunk_bytes, task.end), expected.wanted};
  send<words_at_once>(task, piece, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

// Again while as many launches are pending as there can be, and not for ever.
__device__ bool launch(const PollingTask& task, const ExpectedChunk& expected, int blocks) {
  const std::uint64_t began = nanoseconds();
  do {
    send_chunk<<<blocks, block_threads, 0, cudaStreamFireAndForget>>>(task, expected);
    if (cudaGetLastError() == cudaSuccess) return true;
  } while (nanoseconds() - began < task.patience_ns);
  *task.failure = 1 + expected.chunk;
  return false;
}

// Ends when all that it launched has.
__global__ void launch_ready_chunks(PollingTask task, int blocks) {
  for (std::uint32_t at = 0; at < task.chunks; ++at) {
    const ExpectedChunk expected = expected_chunk(task, at);
    if (!wait_for_chunk(task, expected)) return;
    if (expected.wanted != 0 && !launch(task, expected, blocks)) return;
  }
}

}  // namespace

void load_dynamic_agent() {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, launch_ready_chunks), "load agent");
  check(cudaFuncGetAttributes(&attributes, send_chunk), "load agent");
}

void start_dynamic(void* stream, const PollingTask& task, int threads) {
  // Of a chunk's words, each thread has some on their way.
  const auto words = static_cast<int>(std::min<std::uint64_t>(task.chunk_bytes / 16, 1 << 20));
  const int useful = std::max(std::min(threads, words / words_at_once), block_threads);
  launch_ready_chunks<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(task, useful / block_threads);
  check(cudaGetLastError(), "launch agent");
}

}  // namespace linkwise::proactive
