// What agents that run on a GPU have in common: waiting for chunks, and storing pieces of them to the peers.
#pragma once

#include "linkwise/transfer/proactive/sending_task.hpp"

namespace linkwise::proactive {

struct Piece {
  std::uint64_t first, last;  // bytes; last == 0 marks the end
  std::uint32_t wanted;
};

// Relaxed, since an acquire empties the SM's first-level cache, which the kernel's blocks use.
__device__ inline std::uint32_t look_at(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

__device__ inline void acquire(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
}

__device__ inline std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ inline ExpectedChunk expected_chunk(const SendingTask& task, std::uint32_t at) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(task.expected + at));
  return {words.x, words.y, words.z, 0};
}

/// Waits for a chunk and returns whether it became ready; if not in time, reports the failure to the host.
__device__ inline bool wait_for_chunk(const SendingTask& task, const ExpectedChunk& expected) {
  const std::uint32_t ready = expected.writers * task.epoch;
  const std::uint32_t* const counter = task.counters + expected.chunk;
  const std::uint64_t began = nanoseconds();
  for (unsigned turn = 1; static_cast<std::int32_t>(look_at(counter) - ready) < 0; ++turn) {
    if (turn % 1024 == 0 && nanoseconds() - began > task.patience_ns) {
      *task.failure = 1 + expected.chunk;
      return false;
    }
    __nanosleep(20);
  }
  acquire(counter);
  return true;
}

// Chunks are numbered from the page in which the GPU's part begins; the first and the last one may be cut short.
__device__ inline std::uint64_t begin_of_chunk(const SendingTask& task, std::uint32_t chunk) {
  return task.begin / page_bytes * page_bytes + chunk * task.chunk_bytes;
}

/// `at_once`: 16-byte words that a thread has in flight.
template <int at_once>
__device__ void send(const SendingTask& task, const Piece& piece, unsigned thread, unsigned threads) {
  // Whole words in the middle, and single bytes at the ends, which may share a page with another GPU's part.
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

}  // namespace linkwise::proactive
