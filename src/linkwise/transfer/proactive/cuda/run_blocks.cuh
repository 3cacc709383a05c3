// A producer's kernel on a real GPU.
#pragma once

#include <cuda_runtime.h>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/transfer/proactive/block.hpp"
#include "linkwise/transfer/proactive/kernel_run.hpp"

#ifdef __CUDACC_RDC__
#include "linkwise/transfer/proactive/cuda/launching.cuh"
#endif

namespace linkwise::proactive {

/// Increments the counters of a block's chunks when it is done. To keep the end of the block short, the range of its
/// chunks is loaded when the block begins, and nothing waits for this load meanwhile. Only chunks that are not
/// consecutive have to be looked up at the end.
class BlockCount {
 public:
  __device__ BlockCount(const Outbox& box, std::uint32_t block) : box_(box) {
    if (box.blocks == nullptr || threadIdx.x >= 32) return;
    // Volatile, so that the compiler does not defer the load to where the values are used.
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(of_.first), "=r"(of_.count) : "l"(box.blocks + block));
  }

  /// To be called by all threads. The barrier orders their stores before the first warp's releases, so whoever sees the
  /// count sees the stores.
  __device__ void done() {
    if (box_.blocks == nullptr) return;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    for (std::uint32_t i = of_.first + threadIdx.x; i < of_.first + of_.count; i += 32) {
      std::uint32_t* const counter = box_.counters + (box_.chunks == nullptr ? i : box_.chunks[i]);
      if (box_.for_streams) asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      else asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    }
  }

 private:
  const Outbox& box_;
  ChunksOfBlock of_;
};

template <typename Kernel, typename Out>
__global__ void __launch_bounds__(Kernel::threads)
    run_blocks(Kernel kernel, Out out, Outbox outbox, std::uint32_t first_block) {
  const std::uint32_t block = first_block + blockIdx.x;
  BlockCount count(outbox, block);
  kernel(Block(block), out);
  count.done();
}

template <typename Kernel, typename Out>
void run_on_gpu(cudaStream_t stream, const KernelRun& run, const Kernel& kernel, const Out& out) {
  if (run.only_loads) {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, run_blocks<Kernel, Out>), "load kernel");
    return;
  }
  run_blocks<<<run.last_block - run.first_block, Kernel::threads, 0, stream>>>(kernel, out, run.outbox,
                                                                               run.first_block);
  check(cudaGetLastError(), "launch kernel");
}

#ifdef __CUDACC_RDC__
inline constexpr bool can_launch = true;
#else
inline constexpr bool can_launch = false;
#endif

/// As `run_on_gpu`, but a kernel that has senders launches them.
template <typename Kernel, typename Out>
void run_and_send_on_gpu(cudaStream_t stream, const KernelRun& run, const Kernel& kernel, const Out& out) {
  if (run.senders == 0) return run_on_gpu(stream, run, kernel, out);
#ifdef __CUDACC_RDC__
  run_and_launch_on_gpu(stream, run, kernel, out);
#endif
}

}  // namespace linkwise::proactive
