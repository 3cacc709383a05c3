#include <cuda_runtime.h>

#include <algorithm>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/transfer/proactive/cuda/agents.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t piece_bytes = 64 << 10;
constexpr int most_threads = 512, at_once = 8;  // 16-byte words that a thread has on their way
constexpr std::uint64_t patience_ns = 1'000'000'000;

__device__ std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// The chunk in a slot of the queue, once it is there.
__device__ bool wait_for_chunk(const PollingTask& task, std::uint32_t slot, std::uint32_t& chunk) {
  const std::uint32_t epoch = task.outbox.epoch;
  const std::uint64_t began = nanoseconds();
  for (unsigned turn = 1;; ++turn) {
    const std::uint64_t entry = load_acquire(task.outbox.queue + slot);
    chunk = static_cast<std::uint32_t>(entry);
    if (entry >> 32 == epoch) return true;
    if (turn % 1024 == 0 && nanoseconds() - began > patience_ns) return false;
    __nanosleep(20);
  }
}

__device__ void send(const PollingTask& task, std::uint64_t first, std::uint64_t last, std::uint32_t wanted) {
  // Whole words in the middle; the bytes of a part's two ends may belong to a page of another GPU's.
  const std::uint64_t begin = (first + 15) / 16 * 16, end = last / 16 * 16;
  if (first % 16 != 0 || last % 16 != 0)
    for (int p = 0; p < task.peers; ++p) {
      if ((wanted >> p & 1) == 0) continue;
      for (std::uint64_t i = first + threadIdx.x; i < min(begin, last); i += blockDim.x) task.to[p][i] = task.from[i];
      for (std::uint64_t i = max(end, begin) + threadIdx.x; i < last; i += blockDim.x) task.to[p][i] = task.from[i];
    }
  const std::uint64_t step = 16ULL * blockDim.x;
  for (std::uint64_t at = begin + 16 * threadIdx.x; at < end; at += at_once * step) {
    uint4 words[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (at + u * step < end) words[u] = __ldcg(reinterpret_cast<const uint4*>(task.from + at + u * step));
    for (int p = 0; p < task.peers; ++p) {
      if ((wanted >> p & 1) == 0) continue;
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (at + u * step < end) *reinterpret_cast<uint4*>(task.to[p] + at + u * step) = words[u];
    }
  }
}

__global__ void __launch_bounds__(most_threads) poll(PollingTask task) {
  struct Piece {
    std::uint32_t chunk, number;
  };
  __shared__ Piece pieces[2];  // used in turn, so that one barrier a piece is enough
  constexpr std::uint32_t none = ~0U;
  const auto in_chunk = static_cast<std::uint32_t>((task.chunk_bytes + piece_bytes - 1) / piece_bytes);
  const std::uint64_t total = static_cast<std::uint64_t>(task.outbox.capacity) * in_chunk;
  // The queue turns: its slot 0 of this epoch is the first that the kernel fills.
  for (int turn = 0;; turn ^= 1) {
    if (threadIdx.x == 0) {
      const std::uint32_t ticket = atomicAdd(task.head, 1);
      Piece piece{none, 0};
      if (ticket < total) {
        piece.number = ticket % in_chunk;
        if (!wait_for_chunk(task, ticket / in_chunk, piece.chunk)) {
          task.failure[1] = ticket;
          task.failure[0] = 1;
          piece.chunk = none;
        }
      }
      pieces[turn] = piece;
    }
    __syncthreads();
    const Piece piece = pieces[turn];
    if (piece.chunk == none) break;
    // Chunks are counted from the page in which the part begins.
    const std::uint64_t chunk_begin = task.begin / page_bytes * page_bytes + piece.chunk * task.chunk_bytes;
    const std::uint64_t first = max(chunk_begin + piece.number * piece_bytes, task.begin);
    const std::uint64_t last =
        min(min(chunk_begin + (piece.number + 1) * piece_bytes, chunk_begin + task.chunk_bytes), task.end);
    if (first < last) send(task, first, last, task.wanted[piece.chunk]);
  }
}

}  // namespace

void start_polling(void* stream, const PollingTask& task, int threads) {
  auto* const native = static_cast<cudaStream_t>(stream);
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, poll), "load agent");
  check(cudaMemsetAsync(task.head, 0, sizeof *task.head, native), "reset agent");
  const int in_block = std::min(threads, most_threads);
  poll<<<(threads + in_block - 1) / in_block, in_block, 0, native>>>(task);
  check(cudaGetLastError(), "launch agent");
}

void queue_copies(void* stream, std::span<const FlaggedCopy> copies, std::uint32_t epoch, int from_gpu, int to_gpu) {
  auto* const native = static_cast<cudaStream_t>(stream);
  for (const FlaggedCopy& copy : copies) {
    driver::wait_for_flag(native, copy.flag, epoch);
    check(cudaMemcpyPeerAsync(copy.to, to_gpu, copy.from, from_gpu, copy.bytes, native), "copy a chunk");
  }
}

}  // namespace linkwise::proactive
