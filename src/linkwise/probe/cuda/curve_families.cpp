// Comm|Scope's benchmarks by size, from 4 KiB to 4 GiB, from memory of every NUMA node and both ways at once
// (commscope19 §2, §3): pageable and registered memory, zero-copy, unified memory on demand and prefetched, and peers
// without peer access. Measured on GPU 0, and on the pair of GPUs 0 and 1. The measuring thread runs on the NUMA node
// whose memory is used (§2.1.4).
#include <algorithm>
#include <thread>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"
#include "linkwise/probe/cuda/peer_access.hpp"
#include "linkwise/team.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint32_t seed = 41;
constexpr std::uint64_t least = 4 << 10;

std::vector<std::uint64_t> sizes(const FamilyContext& context) {
  std::vector<std::uint64_t> found = curve_sizes(context.options.largest);
  std::erase_if(found, [](std::uint64_t size) { return size < least; });
  return found;
}

std::uint64_t largest_of(const FamilyContext& context) {
  const std::vector<std::uint64_t> all = sizes(context);
  return all.empty() ? least : all.back();
}

bool is_on_gpu(const GpuStream& stream, const std::byte* data, std::uint64_t bytes) {
  return none_wrong(stream, [&](auto* wrong) { count_wrong_words(stream.get(), data, bytes, seed, wrong); });
}

void copy(std::byte* to, const std::byte* from, std::uint64_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy");
}

// Seconds by the stream's events, or by the host's clock if the host takes part.
double seconds_of(GpuStream& stream, bool by_host, const std::function<void(cudaStream_t)>& work) {
  if (!by_host) return stream.seconds(work);
  return wall_seconds([&] {
    work(stream.get());
    stream.wait();
  });
}

void copies_of(FamilyContext& context, HostKind kind, const std::string& name, int node) {
  const std::uint64_t largest = largest_of(context);
  const HostMemory host(kind, largest, node), other(kind, largest, node);
  const GpuMemory in_gpu(0, largest), out_gpu(0, largest);
  GpuStream in(0), out(0);
  const CurrentDevice current(0);
  const bool blocks = kind == HostKind::pageable;
  fill(host.data(), largest, seed);
  fill_words(out.get(), out_gpu.data(), largest, seed);
  out.wait();
  const std::string what = name + ", " + node_name(node) + ", gpu 0";
  for (const std::uint64_t bytes : sizes(context)) {
    in_gpu.clear(bytes);
    add_rate(
        context, what + ", in", bytes,
        [&] { return seconds_of(in, blocks, [&](cudaStream_t s) { copy(in_gpu.data(), host.data(), bytes, s); }); },
        [&] { return is_on_gpu(in, in_gpu.data(), bytes); });
    add_rate(
        context, what + ", out", bytes,
        [&] { return seconds_of(out, blocks, [&](cudaStream_t s) { copy(other.data(), out_gpu.data(), bytes, s); }); },
        [&] { return is_filled(other.data(), bytes, seed); });
    // With pageable memory, the thread's second copy begins only once the first has been staged.
    add_rate(
        context, what + ", both ways", 2 * bytes,
        [&] {
          return wall_seconds([&] {
            copy(in_gpu.data(), host.data(), bytes, in.get());
            copy(other.data(), out_gpu.data(), bytes, out.get());
            in.wait();
            out.wait();
          });
        },
        [&] { return is_on_gpu(in, in_gpu.data(), bytes) && is_filled(other.data(), bytes, seed); });
  }
}

bool moves_on_demand(FamilyContext& context, int gpu) {
  int concurrent = 0;
  check(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, gpu), "ask for managed access");
  if (concurrent == 0) context.cannot("gpu " + std::to_string(gpu), "its managed memory does not move on demand");
  return concurrent != 0;
}

cudaMemLocation on_gpu(int gpu) { return {cudaMemLocationTypeDevice, gpu}; }
cudaMemLocation on_node(int node) {
  if (node < 0) return {cudaMemLocationTypeHost, 0};
  return {cudaMemLocationTypeHostNuma, node};
}

void move(const GpuMemory& managed, std::uint64_t bytes, cudaMemLocation where, cudaStream_t stream) {
  check(cudaMemPrefetchAsync(managed.data(), bytes, where, 0, stream), "prefetch");
}

void settle(const GpuMemory& managed, std::uint64_t bytes, cudaMemLocation where, const GpuStream& stream) {
  move(managed, bytes, where, stream.get());
  stream.wait();
}

}  // namespace

void host_memory_curves(FamilyContext& context) {
  for (const int node : numa_nodes()) {
    const ThreadOnNode here(node);
    copies_of(context, HostKind::pageable, "pageable", node);
    copies_of(context, HostKind::registered, "registered", node);
  }
}

void host_to_host_curves(FamilyContext& context) {
  const std::uint64_t largest = largest_of(context);
  for (const int from : numa_nodes())
    for (const int to : numa_nodes()) {
      const ThreadOnNode here(to);
      const HostMemory source(HostKind::pageable, largest, from), target(HostKind::registered, largest, to);
      GpuStream stream(0);
      fill(source.data(), largest, seed);
      for (const bool flushed : {false, true})
        for (const std::uint64_t bytes : sizes(context))
          add_rate(
              context, node_name(from) + " to " + node_name(to) + (flushed ? ", flushed" : ""), bytes,
              [&] {
                if (flushed) flush_caches(target.data(), bytes);
                return seconds_of(stream, true, [&](cudaStream_t s) { copy(target.data(), source.data(), bytes, s); });
              },
              [&] { return is_filled(target.data(), bytes, seed); });
    }
}

// 256 blocks of 256 threads access words of four bytes, in memory that was flushed from the caches (§3.3).
void zero_copy_curves(FamilyContext& context) {
  const std::uint64_t largest = largest_of(context);
  for (const int node : numa_nodes()) {
    const ThreadOnNode here(node);
    const HostMemory host(HostKind::registered, largest, node), sum(HostKind::pinned, sizeof(unsigned long long));
    GpuStream stream(0);
    const CurrentDevice current(0);
    auto* const total = reinterpret_cast<unsigned long long*>(sum.data());
    fill(host.data(), largest, seed);
    const std::string what = node_name(node) + ", gpu 0";
    for (const std::uint64_t bytes : sizes(context)) {
      const std::uint64_t words = bytes / 4;
      add_rate(
          context, what + ", read", bytes,
          [&] {
            flush_caches(host.data(), bytes);
            *total = 0;
            return stream.seconds([&](cudaStream_t s) { read_words(s, host.data(), bytes, total); });
          },
          [&] { return *total == words * (words - 1) / 2 + words * seed; });
      add_rate(
          context, what + ", write", bytes,
          [&] {
            flush_caches(host.data(), bytes);
            return stream.seconds([&](cudaStream_t s) { write_words(s, host.data(), bytes, seed); });
          },
          [&] { return is_filled(host.data(), bytes, seed); });
    }
  }
}

// Writes one byte of each system page from a processor where none of the pages reside (§3.4).
void unified_demand_curves(FamilyContext& context) {
  if (!moves_on_demand(context, 0)) return;
  const std::uint64_t largest = largest_of(context), page = system_page();
  const GpuMemory managed(0, largest, true), other(0, largest, true);
  GpuStream stream(0);
  const CurrentDevice current(0);
  const bool has_peer = context.num_gpus() > 1 && moves_on_demand(context, 1);
  const auto touched = [&](GpuStream& by, const GpuMemory& memory, std::uint64_t bytes) {
    return by.seconds([&](cudaStream_t s) { touch_pages(s, memory.data(), bytes, page, seed); });
  };
  for (const int node : numa_nodes()) {
    const ThreadOnNode here(node);
    for (const GpuMemory* memory : {&managed, &other}) {
      settle(*memory, largest, on_node(node), stream);
      fill(memory->data(), largest, seed);
    }
    const std::string of_node = node_name(node);
    for (const std::uint64_t bytes : sizes(context)) {
      const auto intact = [&] { return is_filled(managed.data(), bytes, seed); };
      add_rate(
          context, "gpu 0 touches pages of " + of_node, bytes,
          [&] {
            settle(managed, bytes, on_node(node), stream);
            return touched(stream, managed, bytes);
          },
          intact);
      for (const int threads : {1, team()})
        add_rate(
            context, std::to_string(threads) + " threads of " + of_node + " touch pages of gpu 0", bytes,
            [&] {
              settle(managed, bytes, on_gpu(0), stream);
              return touch_by_host(managed.data(), bytes, threads, seed);
            },
            intact);
      add_rate(
          context, "both touch the other's, " + of_node, 2 * bytes,
          [&] {
            settle(managed, bytes, on_node(node), stream);
            settle(other, bytes, on_gpu(0), stream);
            return wall_seconds([&] {
              touch_pages(stream.get(), managed.data(), bytes, page, seed);
              (void)touch_by_host(other.data(), bytes, team(), seed);
              stream.wait();
            });
          },
          [&] { return intact() && is_filled(other.data(), bytes, seed); });
    }
  }
  if (!has_peer) return;
  GpuStream peer(1);
  for (const std::uint64_t bytes : sizes(context))
    for (const bool forward : {true, false})
      add_rate(
          context, forward ? "gpu 1 touches pages of gpu 0" : "gpu 0 touches pages of gpu 1", bytes,
          [&] {
            settle(managed, bytes, on_gpu(forward ? 0 : 1), stream);
            return touched(forward ? peer : stream, managed, bytes);
          },
          [&] { return is_filled(managed.data(), bytes, seed); });
}

void unified_prefetch_curves(FamilyContext& context) {
  if (!moves_on_demand(context, 0)) return;
  const std::uint64_t largest = largest_of(context);
  const GpuMemory managed(0, largest, true), other(0, largest, true);
  GpuStream stream(0), back(0);
  const CurrentDevice current(0);
  for (const GpuMemory* memory : {&managed, &other}) {
    settle(*memory, largest, on_node(-1), stream);
    fill(memory->data(), largest, seed);
  }
  const auto measure = [&](const std::string& what, cudaMemLocation from, cudaMemLocation to, bool by_host) {
    for (const std::uint64_t bytes : sizes(context))
      add_rate(
          context, what, bytes,
          [&] {
            settle(managed, bytes, from, stream);
            return seconds_of(stream, by_host, [&](cudaStream_t s) { move(managed, bytes, to, s); });
          },
          [&] { return is_filled(managed.data(), bytes, seed); });
  };
  for (const int node : numa_nodes()) {
    const ThreadOnNode here(node);
    measure(node_name(node) + " to gpu 0", on_node(node), on_gpu(0), false);
    measure("gpu 0 to " + node_name(node), on_gpu(0), on_node(node), true);
    for (const std::uint64_t bytes : sizes(context))
      add_rate(
          context, "both ways, " + node_name(node) + " and gpu 0", 2 * bytes,
          [&] {
            settle(managed, bytes, on_node(node), stream);
            settle(other, bytes, on_gpu(0), stream);
            return wall_seconds([&] {
              move(managed, bytes, on_gpu(0), stream.get());
              move(other, bytes, on_node(node), back.get());
              stream.wait();
              back.wait();
            });
          },
          [&] { return is_filled(managed.data(), bytes, seed) && is_filled(other.data(), bytes, seed); });
  }
  if (context.num_gpus() < 2 || !moves_on_demand(context, 1)) return;
  measure("gpu 0 to gpu 1", on_gpu(0), on_gpu(1), false);
  measure("gpu 1 to gpu 0", on_gpu(1), on_gpu(0), false);
}

// With peer access off, a copy is staged through host memory by the calling thread: copying both ways at once takes
// two threads.
void peer_off_curves(FamilyContext& context) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  const std::uint64_t largest = largest_of(context);
  const std::unique_ptr<PeerAccess> there = without_access(0, 1), back = without_access(1, 0);
  const GpuMemory source(0, largest), target(1, largest), other_source(1, largest), other_target(0, largest);
  GpuStream forward(0), backward(1);
  for (const auto& [memory, stream] : {std::pair{&source, &forward}, std::pair{&other_source, &backward}}) {
    const CurrentDevice current(stream->gpu());
    fill_words(stream->get(), memory->data(), largest, seed);
    stream->wait();
  }
  const auto send = [](const GpuMemory& to, int to_gpu, const GpuMemory& from, int from_gpu, std::uint64_t bytes,
                       GpuStream& stream) {
    const CurrentDevice current(from_gpu);
    check(cudaMemcpyPeerAsync(to.data(), to_gpu, from.data(), from_gpu, bytes, stream.get()), "copy to a peer");
    stream.wait();
  };
  for (const std::uint64_t bytes : sizes(context)) {
    target.clear(bytes);
    add_rate(
        context, "0→1", bytes, [&] { return wall_seconds([&] { send(target, 1, source, 0, bytes, forward); }); },
        [&] { return is_on_gpu(backward, target.data(), bytes); });
    add_rate(
        context, "0→1 and 1→0", 2 * bytes,
        [&] {
          return wall_seconds([&] {
            std::jthread other([&] { send(other_target, 0, other_source, 1, bytes, backward); });
            send(target, 1, source, 0, bytes, forward);
          });
        },
        [&] { return is_on_gpu(backward, target.data(), bytes) && is_on_gpu(forward, other_target.data(), bytes); });
  }
}

}  // namespace linkwise::cuda
