// Families of transfers between host memory of every kind and GPUs.
#include <cstring>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"
#include "linkwise/team.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint32_t seed = 17;

std::string on_gpu(int gpu) { return "gpu " + std::to_string(gpu); }

double copy_seconds(GpuStream& stream, void* to, const void* from, std::uint64_t bytes) {
  return stream.seconds(
      [&](cudaStream_t native) { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native), "copy"); });
}

// Pageable copies block the host, so they are timed by its clock.
double blocking_copy_seconds(GpuStream& stream, void* to, const void* from, std::uint64_t bytes) {
  return wall_seconds([&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()), "copy");
    stream.wait();
  });
}

void kind_of_memory(FamilyContext& context, HostKind kind, const std::string& name, int node, int gpu) {
  const std::uint64_t bytes = context.options.bytes;
  const HostMemory host(kind, bytes, node);
  const GpuMemory device(gpu, bytes), other(gpu, bytes);
  GpuStream in(gpu), out(gpu);
  const CurrentDevice current(gpu);
  const bool blocks = kind == HostKind::pageable;
  const auto copy = blocks ? blocking_copy_seconds : copy_seconds;
  const std::string what = name + ", " + node_name(node) + ", " + on_gpu(gpu);
  const auto arrived_at = [&](const GpuMemory& at) {
    return none_wrong(in, [&](auto* wrong) { count_wrong_words(in.get(), at.data(), bytes, seed, wrong); });
  };
  fill(host.data(), bytes, seed);
  device.clear(bytes);
  add_rate(
      context, what + ", in", bytes, [&] { return copy(in, device.data(), host.data(), bytes); },
      [&] { return arrived_at(device); });
  std::memset(host.data(), 0, bytes);
  add_rate(
      context, what + ", out", bytes, [&] { return copy(out, host.data(), device.data(), bytes); },
      [&] { return is_filled(host.data(), bytes, seed); });
  if (blocks) return;  // one host thread cannot run two blocking copies at once
  // Half of the memory goes in while the other half comes out.
  const std::uint64_t half = bytes / 2;
  std::memset(host.data() + half, 0, half);
  other.clear(bytes);
  add_rate(
      context, what + ", both ways", 2 * half,
      [&] {
        return wall_seconds([&] {
          check(cudaMemcpyAsync(other.data(), host.data(), half, cudaMemcpyDefault, in.get()), "copy in");
          check(cudaMemcpyAsync(host.data() + half, device.data() + half, half, cudaMemcpyDefault, out.get()),
                "copy out");
          in.wait();
          out.wait();
        });
      },
      [&] {
        return is_filled(host.data(), bytes, seed) &&
               none_wrong(in, [&](auto* wrong) { count_wrong_words(in.get(), other.data(), half, seed, wrong); });
      });
}

}  // namespace

void host_memory_kinds(FamilyContext& context) {
  for (const int node : numa_nodes())
    for (int gpu = 0; gpu < context.num_gpus(); ++gpu) {
      kind_of_memory(context, HostKind::pageable, "pageable", node, gpu);
      kind_of_memory(context, HostKind::pinned, "pinned", node, gpu);
      kind_of_memory(context, HostKind::registered, "registered", node, gpu);
      kind_of_memory(context, HostKind::write_combined, "write-combined", node, gpu);
    }
}

namespace {

/// What the CPU's caches hold of the memory that is copied: what many cores have just written; what the last
/// repetition left there, as in commscope19 fig. 2; or nothing.
enum class CacheState { just_written, untouched, flushed };

std::string to_string(CacheState state) {
  return state == CacheState::just_written ? "just written" : state == CacheState::untouched ? "untouched" : "flushed";
}

}  // namespace

void cache_flushing(FamilyContext& context) {
  for (const std::uint64_t bytes : {64ULL << 10, 1ULL << 20, 16ULL << 20, 256ULL << 20})
    for (const CacheState state : {CacheState::just_written, CacheState::untouched, CacheState::flushed})
      for (const HostKind kind : {HostKind::pageable, HostKind::pinned}) {
        const HostMemory host(kind, bytes);
        const GpuMemory device(0, bytes);
        GpuStream stream(0);
        const auto copy = kind == HostKind::pageable ? blocking_copy_seconds : copy_seconds;
        device.clear(bytes);
        const std::string what = std::string(kind == HostKind::pageable ? "pageable" : "pinned") + ", " +
                                 to_string(state) + ", " + std::to_string(bytes >> 10) + " KiB";
        fill(host.data(), bytes, seed);
        add_rate(
            context, what, bytes,
            [&] {
              if (state == CacheState::just_written) fill(host.data(), bytes, seed);
              if (state == CacheState::flushed) flush_caches(host.data(), bytes);
              return copy(stream, device.data(), host.data(), bytes);
            },
            [&] {
              return none_wrong(
                  stream, [&](auto* wrong) { count_wrong_words(stream.get(), device.data(), bytes, seed, wrong); });
            });
      }
}

void host_to_host(FamilyContext& context) {
  const std::uint64_t bytes = context.options.bytes;
  for (const int from : numa_nodes())
    for (const int to : numa_nodes())
      for (const bool parallel : {false, true}) {
        const HostMemory source(HostKind::pageable, bytes, from), target(HostKind::pinned, bytes, to);
        fill(source.data(), bytes, seed);
        constexpr std::uint64_t piece = 1 << 20;
        const std::string what =
            node_name(from) + " to " + node_name(to) + (parallel ? ", all threads" : ", one thread");
        add_rate(
            context, what, bytes,
            [&] {
              return wall_seconds([&] {
                if (!parallel) {
                  std::memcpy(target.data(), source.data(), bytes);
                  return;
                }
#pragma omp parallel for num_threads(team())
                for (std::uint64_t at = 0; at < bytes; at += piece)
                  std::memcpy(target.data() + at, source.data() + at, std::min(piece, bytes - at));
              });
            },
            [&] { return is_filled(target.data(), bytes, seed); });
      }
}

void zero_copy(FamilyContext& context) {
  const std::uint64_t bytes = context.options.bytes;
  for (const int node : numa_nodes())
    for (int gpu = 0; gpu < context.num_gpus(); ++gpu) {
      const HostMemory host(HostKind::pinned, bytes, node);
      const GpuMemory device(gpu, bytes);
      GpuStream stream(gpu);
      const std::string what = node_name(node) + ", " + on_gpu(gpu);
      fill(host.data(), bytes, seed);
      device.clear(bytes);
      add_rate(
          context, what + ", read", bytes,
          [&] {
            return stream.seconds([&](cudaStream_t native) { copy_words(native, device.data(), host.data(), bytes); });
          },
          [&] {
            return none_wrong(stream,
                              [&](auto* wrong) { count_wrong_words(stream.get(), device.data(), bytes, seed, wrong); });
          });
      std::memset(host.data(), 0, bytes);
      add_rate(
          context, what + ", write", bytes,
          [&] {
            return stream.seconds([&](cudaStream_t native) { copy_words(native, host.data(), device.data(), bytes); });
          },
          [&] { return is_filled(host.data(), bytes, seed); });
    }
}

}  // namespace linkwise::cuda
