// Managed memory, which migrates on demand or is prefetched. A moderate size suffices: the result is a rate.
#include <omp.h>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint32_t seed = 23;
constexpr std::uint64_t bytes = 64 << 20;

bool can_move(FamilyContext& context, int gpu) {
  int concurrent = 0;
  check(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, gpu), "ask for managed access");
  if (concurrent == 0) context.cannot("gpu " + std::to_string(gpu), "its managed memory does not move on demand");
  return concurrent != 0;
}

void prefetch(const GpuMemory& managed, int gpu, cudaStream_t stream) {
  const cudaMemLocation where{gpu < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, gpu < 0 ? 0 : gpu};
  check(cudaMemPrefetchAsync(managed.data(), bytes, where, 0, stream), "prefetch");
}

void settle(const GpuMemory& managed, int gpu, const GpuStream& stream) {
  prefetch(managed, gpu, stream.get());
  stream.wait();
}

bool is_intact_on(GpuStream& stream, const GpuMemory& managed) {
  return none_wrong(stream, [&](auto* wrong) { count_wrong_words(stream.get(), managed.data(), bytes, seed, wrong); });
}

// Seconds that a kernel on the stream takes to read all of the managed memory.
double touch(GpuStream& stream, const GpuMemory& managed, const GpuMemory& target) {
  return stream.seconds([&](cudaStream_t native) { copy_words(native, target.data(), managed.data(), bytes); });
}

}  // namespace

void unified_demand(FamilyContext& context) {
  for (int gpu = 0; gpu < context.num_gpus(); ++gpu) {
    if (!can_move(context, gpu)) continue;
    const GpuMemory managed(gpu, bytes, true), target(gpu, bytes);
    GpuStream stream(gpu);
    const std::string name = "gpu " + std::to_string(gpu);
    settle(managed, -1, stream);
    fill(managed.data(), bytes, seed);
    add_rate(
        context, name + " touches the host's", bytes,
        [&] {
          settle(managed, -1, stream);
          return touch(stream, managed, target);
        },
        [&] { return is_intact_on(stream, target); });
    for (int threads = 1; threads <= omp_get_max_threads(); threads *= 2)
      add_rate(
          context, std::to_string(threads) + " host threads touch " + name + "'s", bytes,
          [&] {
            settle(managed, gpu, stream);
            return touch_by_host(managed.data(), bytes, threads, seed);
          },
          [&] { return is_filled(managed.data(), bytes, seed); });
    if (gpu == 0) continue;
    GpuStream first(0);
    add_rate(
        context, name + " touches gpu 0's", bytes,
        [&] {
          settle(managed, 0, first);
          return touch(stream, managed, target);
        },
        [&] { return is_intact_on(stream, target); });
  }
}

void unified_prefetch(FamilyContext& context) {
  for (int gpu = 0; gpu < context.num_gpus(); ++gpu) {
    if (!can_move(context, gpu)) continue;
    const GpuMemory managed(gpu, bytes, true);
    GpuStream stream(gpu);
    settle(managed, -1, stream);
    fill(managed.data(), bytes, seed);
    const auto move = [&](const std::string& what, int from, int to) {
      add_rate(
          context, what, bytes,
          [&] {
            settle(managed, from, stream);
            return wall_seconds([&] { settle(managed, to, stream); });
          },
          [&] { return is_filled(managed.data(), bytes, seed); });
    };
    const std::string name = "gpu " + std::to_string(gpu);
    move("host to " + name, -1, gpu);
    move(name + " to host", gpu, -1);
    if (gpu == 0) continue;
    move("gpu 0 to " + name, 0, gpu);
    move(name + " to gpu 0", gpu, 0);
  }
}

}  // namespace linkwise::cuda
