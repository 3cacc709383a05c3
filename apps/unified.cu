// The microbenchmark on unified memory with all hints (proact21 §IV-B): pages are mapped beforehand, replicated where
// they are read, and prefetched to all readers after the kernel.
#include <cuda_runtime.h>

#include <memory>

#include "app.hpp"
#include "linkwise/device/cuda/current_device.hpp"
#include "linkwise/error.hpp"
#include "synthetic.cuh"

namespace linkwise::apps {
namespace {

constexpr int block_threads = 256;

__global__ void make(SyntheticWords* to, std::uint64_t count, std::uint32_t iteration, int steps) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) to[i] = synthetic_words(i, iteration, steps);
}

__global__ void count_wrong(const SyntheticWords* words, std::uint64_t count, std::uint32_t iteration, int steps,
                            unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const SyntheticWords wanted = synthetic_words(i, iteration, steps);
  for (int w = 0; w < 4; ++w)
    if (words[i].word[w] != wanted.word[w]) atomicAdd(wrong, 1);
}

struct Free {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
template <typename Element>
std::unique_ptr<Element, Free> managed(std::uint64_t count) {
  void* memory = nullptr;
  check(cudaMallocManaged(&memory, count * sizeof(Element)), "allocate unified memory");
  return std::unique_ptr<Element, Free>(static_cast<Element*>(memory));
}

cudaMemLocation on(int gpu) { return {cudaMemLocationTypeDevice, gpu}; }

struct Stream {
  explicit Stream(int gpu) : current(gpu) {
    check(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), "make stream");
    check(cudaEventCreate(&begin), "make event");
    check(cudaEventCreate(&end), "make event");
  }
  ~Stream() {
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    (void)cudaStreamDestroy(native);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CurrentDevice current;
  cudaStream_t native = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

}  // namespace

std::vector<double> unified_seconds(const std::vector<int>& gpus, const Synthetic& synthetic, int repetitions) {
  if (gpus.empty() || synthetic.bytes == 0) throw UsageError("the microbenchmark needs a GPU, and bytes to make");
  const CurrentDevice kept;
  Stream stream(gpus.front());
  const std::uint64_t count = synthetic.bytes / sizeof(SyntheticWords);
  const auto words = managed<SyntheticWords>(count);
  const auto wrong = managed<unsigned>(1);
  const auto advise = [&](cudaMemoryAdvise advice, int gpu) {
    check(cudaMemAdvise(words.get(), synthetic.bytes, advice, on(gpu)), "advise about unified memory");
  };
  const auto prefetch = [&](int gpu) {
    check(cudaMemPrefetchAsync(words.get(), synthetic.bytes, on(gpu), 0, stream.native), "prefetch");
  };
  for (const int gpu : gpus) advise(cudaMemAdviseSetAccessedBy, gpu);
  const auto blocks = static_cast<unsigned>((count + block_threads - 1) / block_threads);
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    const auto iteration = static_cast<std::uint32_t>(r + 1);
    check(cudaEventRecord(stream.begin, stream.native), "record");
    // Written, replicated pages would fault one by one.
    advise(cudaMemAdviseUnsetReadMostly, gpus.front());
    prefetch(gpus.front());
    make<<<blocks, block_threads, 0, stream.native>>>(words.get(), count, iteration, synthetic.steps);
    check(cudaGetLastError(), "launch");
    check(cudaStreamSynchronize(stream.native), "wait");  // advice is given at once, and not in a stream's order
    advise(cudaMemAdviseSetReadMostly, gpus.front());
    for (std::size_t peer = 1; peer < gpus.size(); ++peer) prefetch(gpus[peer]);
    check(cudaEventRecord(stream.end, stream.native), "record");
    check(cudaEventSynchronize(stream.end), "wait");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, stream.begin, stream.end), "measure");
    if (r > 0) seconds.push_back(milliseconds * 1e-3);  // the first one warms up
    for (const int gpu : gpus) {
      *wrong = 0;
      const Stream reader(gpu);
      count_wrong<<<blocks, block_threads, 0, reader.native>>>(words.get(), count, iteration, synthetic.steps,
                                                               wrong.get());
      check(cudaStreamSynchronize(reader.native), "wait");
      if (*wrong != 0) throw CorruptDataError("GPU " + std::to_string(gpu) + " sees other bytes than were made");
    }
  }
  return seconds;
}

}  // namespace linkwise::apps
