// Blocks that send the chunks that they complete (proact21 §III-C, listing 1): the last block that writes a chunk
// launches a kernel, which stores the chunk to the peers. Like all kernels that launch others, this must be compiled
// as relocatable device code (nvcc -rdc=true).
//
// Measured on H200s: a kernel that is launched on the device begins after 10 µs, but not before all blocks of the
// running kernel have begun, whatever the priorities of their streams. The producer's grid is therefore persistent:
// each resident block does the work of one logical block after the other, and half of the blocks that fit on an SM
// are left to the senders. With 4 of 8 blocks per SM, 256 MiB take 1/1.55 of the time of copying after the kernel,
// with 5 of them 1/1.3, and with 7 a little more than that time. One block can launch every 6 µs, all together every
// 0.4 µs.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/transfer/proactive/block.hpp"
#include "linkwise/transfer/proactive/cuda/sending.cuh"
#include "linkwise/transfer/proactive/kernel_run.hpp"

namespace linkwise::proactive {

/// The threads that send a chunk, in blocks of equal size, so that there are exactly as many as were asked for.
struct Senders {
  int blocks = 0, threads = 0;
  static Senders of(int warps) {
    int of_block = 8;
    while (warps % of_block != 0) --of_block;
    return {warps / of_block, 32 * of_block};
  }
};

/// A template, so that every program that is linked has its own.
template <int at_once>
__global__ void __launch_bounds__(256) send_chunk(LaunchedTask launched, ExpectedChunk expected) {
  const SendingTask& task = *launched.task;
  if (blockIdx.x == 0 && threadIdx.x == 0) task.senders[launched.turn % 2] = gridDim.x * blockDim.x;
  const std::uint64_t begin = begin_of_chunk(task, expected.chunk);
  const Piece piece{max(begin, task.begin), min(begin + task.chunk_bytes, task.end), expected.wanted};
  send<at_once>(task, piece, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}
inline constexpr int words_of_sender = 4;

/// Launches the senders of a chunk. Retries, for a limited time, while the queue of pending launches is full.
__device__ inline void launch(const LaunchedTask& launched, const Senders& senders, const ExpectedChunk& expected) {
  const std::uint64_t began = nanoseconds();
  do {
    send_chunk<words_of_sender><<<senders.blocks, senders.threads, 0, cudaStreamFireAndForget>>>(launched, expected);
    if (cudaGetLastError() == cudaSuccess) return;
  } while (nanoseconds() - began < launched.task->patience_ns);
  *launched.task->failure = 1 + expected.chunk;
}

/// When a block is done, increments the counters of its chunks, and launches senders for those that it was the last
/// to write. To be called by all threads.
__device__ inline void launch_what_is_done(const Outbox& box, const LaunchedTask& launched, const Senders& senders,
                                           std::uint32_t block) {
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const ChunksOfBlock of = box.blocks[block];
  for (std::uint32_t i = of.first + threadIdx.x; i < of.first + of.count; i += 32) {
    const std::uint32_t chunk = box.chunks == nullptr ? i : box.chunks[i];
    const ExpectedChunk expected = expected_chunk(*launched.task, chunk);
    std::uint32_t before;
    // Acquires what the other blocks have written, so that the launched kernel sees it.
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(box.counters + chunk) : "memory");
    if (before + 1 == expected.writers * launched.epoch && expected.wanted != 0) launch(launched, senders, expected);
  }
}

template <typename Kernel, typename Out>
__global__ void __launch_bounds__(Kernel::threads)
    run_and_launch(Kernel kernel, Out out, Outbox outbox, LaunchedTask launched, Senders senders,
                   std::uint32_t blocks) {
  __shared__ std::uint32_t taken;
  std::uint32_t* const next = launched.task->taken;
  if (blockIdx.x == 0 && threadIdx.x == 0) next[(launched.turn + 1) % 2] = 0;  // for the next turn
  for (;;) {
    if (threadIdx.x == 0) taken = atomicAdd(next + launched.turn % 2, 1);
    __syncthreads();
    const std::uint32_t block = taken;
    if (block >= blocks) return;
    kernel(Block(block), out);
    launch_what_is_done(outbox, launched, senders, block);
  }
}

/// Raises the limit of pending launches on the current GPU: a launch that finds the queue full has to be retried,
/// which takes much longer.
inline void allow_launches(std::size_t launches) {
  constexpr std::size_t most = 1 << 16;
  std::size_t allowed = 0;
  check(cudaDeviceGetLimit(&allowed, cudaLimitDevRuntimePendingLaunchCount),
        "look up how many launches can be pending");
  if (allowed < std::min(launches, most))
    check(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, std::min(launches, most)), "allow more launches");
}

template <typename Kernel, typename Out>
void run_and_launch_on_gpu(cudaStream_t stream, const KernelRun& run, const Kernel& kernel, const Out& out) {
  const auto kernel_of_all = run_and_launch<Kernel, Out>;
  if (run.only_loads) {
    allow_launches(run.chunks);
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, kernel_of_all), "load kernel");
    return check(cudaFuncGetAttributes(&attributes, send_chunk<words_of_sender>), "load agent");
  }
  int gpu = 0, multiprocessors = 0, of_each = 0;
  check(cudaGetDevice(&gpu), "find a GPU");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu), "count multiprocessors");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, kernel_of_all, Kernel::threads, 0), "count blocks");
  const auto resident = static_cast<std::uint32_t>(multiprocessors * std::max((of_each + 1) / 2, 1));
  kernel_of_all<<<std::min(resident, run.last_block), Kernel::threads, 0, stream>>>(
      kernel, out, run.outbox, run.sending, Senders::of(run.senders / 32), run.last_block);
  check(cudaGetLastError(), "launch kernel");
}

}  // namespace linkwise::proactive
