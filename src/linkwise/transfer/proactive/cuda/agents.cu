#include "linkwise/transfer/proactive/cuda/agents.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/driver.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t piece_bytes = 64 << 10;
constexpr int warp = 32, most_storing = 512;  // threads of a block, but for the warp that looks for the next piece
constexpr int at_once = 8;                    // 16-byte words that a thread has on their way
constexpr std::uint64_t patience_ns = 1'000'000'000;

struct Piece {
  std::uint64_t first, last;  // bytes; none: the end
  std::uint32_t wanted;
};

__device__ std::uint32_t load_acquire(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ bool wait_for_chunk(const PollingTask& task, std::uint32_t chunk) {
  const std::uint32_t ready = task.writers[chunk] * task.epoch;
  const std::uint64_t began = nanoseconds();
  for (unsigned turn = 1; static_cast<std::int32_t>(load_acquire(task.counters + chunk) - ready) < 0; ++turn) {
    if (turn % 1024 == 0 && nanoseconds() - began > patience_ns) return false;
    __nanosleep(20);
  }
  return true;
}

__device__ Piece next_piece(const PollingTask& task) {
  const auto in_chunk = static_cast<std::uint32_t>((task.chunk_bytes + piece_bytes - 1) / piece_bytes);
  const std::uint32_t ticket = atomicAdd(task.taken, 1);
  if (ticket / in_chunk >= task.chunks) return {};
  const std::uint32_t chunk = task.order[ticket / in_chunk];
  if (!wait_for_chunk(task, chunk)) {
    *task.failure = 1;
    return {};
  }
  // Chunks are counted from the page in which the part begins; their first and last pieces may be cut.
  const std::uint64_t chunk_begin = task.begin / page_bytes * page_bytes + chunk * task.chunk_bytes;
  const std::uint64_t begin = chunk_begin + ticket % in_chunk * piece_bytes;
  const std::uint64_t end = min(min(begin + piece_bytes, chunk_begin + task.chunk_bytes), task.end);
  // A piece of no bytes behind the end is no end: others may follow.
  return {max(begin, task.begin), max(end, task.begin + 1), begin < task.end ? task.wanted[chunk] : 0};
}

__device__ void send(const PollingTask& task, const Piece& piece, unsigned thread, unsigned threads) {
  // Whole words in the middle; the bytes of a part's two ends may belong to a page of another GPU's.
  const std::uint64_t begin = (piece.first + 15) / 16 * 16, end = piece.last / 16 * 16;
  if (piece.first % 16 != 0 || piece.last % 16 != 0)
    for (int p = 0; p < task.peers; ++p) {
      if ((piece.wanted >> p & 1) == 0) continue;
      for (std::uint64_t i = piece.first + thread; i < min(begin, piece.last); i += threads)
        task.to[p][i] = task.from[i];
      for (std::uint64_t i = max(end, begin) + thread; i < piece.last; i += threads) task.to[p][i] = task.from[i];
    }
  const std::uint64_t step = 16ULL * threads;
  for (std::uint64_t at = begin + 16 * thread; at < end; at += at_once * step) {
    uint4 words[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (at + u * step < end) words[u] = __ldcg(reinterpret_cast<const uint4*>(task.from + at + u * step));
    for (int p = 0; p < task.peers; ++p) {
      if ((piece.wanted >> p & 1) == 0) continue;
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (at + u * step < end) *reinterpret_cast<uint4*>(task.to[p] + at + u * step) = words[u];
    }
  }
}

// The first warp looks for the next piece while the others send this one.
__global__ void __launch_bounds__(most_storing + warp) poll(PollingTask task) {
  __shared__ Piece pieces[2];
  if (threadIdx.x == 0) pieces[0] = next_piece(task);
  for (int turn = 0;; turn ^= 1) {
    __syncthreads();
    const Piece piece = pieces[turn];
    if (piece.last == 0) break;
    if (threadIdx.x == 0) pieces[turn ^ 1] = next_piece(task);
    if (threadIdx.x >= warp && piece.wanted != 0) send(task, piece, threadIdx.x - warp, blockDim.x - warp);
  }
}

}  // namespace

void load_polling() {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, poll), "load agent");
}

void start_polling(void* stream, const PollingTask& task, int threads) {
  auto* const native = static_cast<cudaStream_t>(stream);
  check(cudaMemsetAsync(task.taken, 0, sizeof *task.taken, native), "reset agent");
  const int storing = std::min(threads, most_storing);
  poll<<<(threads + storing - 1) / storing, storing + warp, 0, native>>>(task);
  check(cudaGetLastError(), "launch agent");
}

void queue_copies(void* stream, std::span<const AwaitedCopy> copies, int from_gpu, int to_gpu) {
  auto* const native = static_cast<cudaStream_t>(stream);
  for (const AwaitedCopy& copy : copies) {
    driver::wait_for_flag(native, copy.counter, copy.ready);
    check(cudaMemcpyPeerAsync(copy.to, to_gpu, copy.from, from_gpu, copy.bytes, native), "copy a chunk");
  }
}

}  // namespace linkwise::proactive
