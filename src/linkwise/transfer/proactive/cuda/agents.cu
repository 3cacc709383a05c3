#include "linkwise/transfer/proactive/cuda/agents.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/transfer/proactive/cuda/sending.cuh"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t piece_bytes = 64 << 10;
// The storing threads of a block, beside the warp that looks for the next piece, and the words that each has in
// flight. Both are so few that a block fits on an SM as soon as a single block of the kernel, of 8192 registers say,
// has ended.
constexpr int warp = 32, most_storing = 96, words_at_once = 6;

__device__ Piece next_piece(const SendingTask& task) {
  const auto in_chunk = static_cast<std::uint32_t>((task.chunk_bytes + piece_bytes - 1) / piece_bytes);
  const std::uint32_t ticket = atomicAdd(task.taken + task.turn % 2, 1);
  if (ticket / in_chunk >= task.chunks) return {};
  const ExpectedChunk expected = expected_chunk(task, ticket / in_chunk);
  if (!wait_for_chunk(task, expected)) return {};
  const std::uint64_t chunk_begin = begin_of_chunk(task, expected.chunk);
  const std::uint64_t begin = chunk_begin + ticket % in_chunk * piece_bytes;
  const std::uint64_t end = min(min(begin + piece_bytes, chunk_begin + task.chunk_bytes), task.end);
  // An empty piece behind the end must not look like the end marker (last == 0), since other pieces may follow.
  return {max(begin, task.begin), max(end, task.begin + 1), begin < task.end ? expected.wanted : 0};
}

// The first warp looks for the next piece while the others send this one; in the last block, only the remaining
// threads send.
__global__ void __launch_bounds__(most_storing + warp) poll(SendingTask task, unsigned threads) {
  __shared__ Piece pieces[2];
  const unsigned storing = min(blockDim.x - warp, threads - blockIdx.x * (blockDim.x - warp));
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) task.taken[(task.turn + 1) % 2] = task.senders[(task.turn + 1) % 2] = 0;  // for the next turn
    atomicAdd(task.senders + task.turn % 2, storing);
    pieces[0] = next_piece(task);
  }
  for (int turn = 0;; turn ^= 1) {
    __syncthreads();
    const Piece piece = pieces[turn];
    if (piece.last == 0) break;
    if (threadIdx.x == 0) pieces[turn ^ 1] = next_piece(task);
    if (threadIdx.x >= warp && threadIdx.x < warp + storing && piece.wanted != 0)
      send<words_at_once>(task, piece, threadIdx.x - warp, storing);
  }
}

}  // namespace

void load_polling_agent() {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, poll), "load agent");
}

void start_polling(void* stream, const SendingTask& task, int threads) {
  auto* const native = static_cast<cudaStream_t>(stream);
  const int storing = std::min(threads, most_storing);
  poll<<<(threads + storing - 1) / storing, storing + warp, 0, native>>>(task, threads);
  check(cudaGetLastError(), "launch agent");
}

void queue_copies(void* stream, std::span<const AwaitedCopy> copies, int from_gpu, int to_gpu) {
  auto* const native = static_cast<cudaStream_t>(stream);
  for (const AwaitedCopy& copy : copies) {
    if (copy.counter != nullptr) driver::wait_for_flag(native, copy.counter, copy.ready);
    check(cudaMemcpyPeerAsync(copy.to, to_gpu, copy.from, from_gpu, copy.bytes, native), "copy a chunk");
  }
}

}  // namespace linkwise::proactive
