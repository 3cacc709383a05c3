// The tools of the CUDA families: memory of every kind, streams, and timers.
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/current_device.hpp"
#include "linkwise/probe/families.hpp"

namespace linkwise::cuda {

/// The kind of a host allocation.
enum class HostKind { pageable, pinned, write_combined, registered };

/// Host memory with all pages populated, on one NUMA node unless that is -1. Nothing may still use it when it is
/// destroyed.
class HostMemory {
 public:
  HostMemory(HostKind kind, std::uint64_t bytes, int node = -1);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  HostKind kind_;
  std::uint64_t bytes_;
  std::byte* data_ = nullptr;
};

/// Memory of one GPU from cudaMalloc, or managed memory.
class GpuMemory {
 public:
  GpuMemory(int gpu, std::uint64_t bytes, bool managed = false);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  /// Overwrites the contents, so that stale data cannot pass a check.
  void clear(std::uint64_t bytes) const;

 private:
  std::byte* data_ = nullptr;
};

/// A stream of one GPU and two events on it.
class GpuStream {
 public:
  explicit GpuStream(int gpu);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] int gpu() const { return gpu_; }
  /// Seconds between events around the work that `enqueue` puts on the stream. The GPU is the current device
  /// meanwhile.
  double seconds(const std::function<void(cudaStream_t)>& enqueue);
  void wait() const { check(cudaStreamSynchronize(stream_), "wait for a stream"); }

 private:
  int gpu_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t began_ = nullptr, ended_ = nullptr;
};

/// Seconds by the host's clock, for work in which the host takes part.
double wall_seconds(const std::function<void()>& work);

/// The host's NUMA nodes that this process may allocate on; {-1} if there is only one, or they are unknown.
std::vector<int> numa_nodes();
std::string node_name(int node);

/// Binds the calling thread to the CPUs of a NUMA node while this lives, unless the node is -1.
class ThreadOnNode {
 public:
  explicit ThreadOnNode(int node);
  ~ThreadOnNode();
  ThreadOnNode(const ThreadOnNode&) = delete;
  ThreadOnNode& operator=(const ThreadOnNode&) = delete;

 private:
  bool is_bound_ = false;
  cpu_set_t before_{};
};

/// The system's page size in bytes: the unit in which memory migrates on demand.
std::uint64_t system_page();
/// Seconds that `threads` threads take to write one byte of each page, with the value that `fill` wrote there.
double touch_by_host(std::byte* data, std::uint64_t bytes, int threads, std::uint32_t seed);

/// Writes back and evicts every cache line of the buffer, so that a copy reads memory and not a cache (commscope19
/// §2.2.4).
void flush_caches(const std::byte* data, std::uint64_t bytes);

/// Warms up, repeats, and adds a row of GB/s; `is_intact` says whether the received data is what was sent.
/// @throws CorruptDataError if it is not.
void add_rate(FamilyContext& context, const std::string& what, std::uint64_t bytes, const std::function<double()>& once,
              const std::function<bool()>& is_intact);
/// Whether the check that `count` enqueues on the stream leaves its counter of wrong elements at 0. Blocks.
bool none_wrong(const GpuStream& stream, const std::function<void(unsigned long long*)>& count);
/// Whether every word, read by the host, is what fill_words writes with this seed.
bool is_filled(const std::byte* data, std::uint64_t bytes, std::uint32_t seed);
/// Writes from the host what fill_words writes.
void fill(std::byte* data, std::uint64_t bytes, std::uint32_t seed);
/// Warms up, repeats `once`, which does something `in_a_row` times, and adds a row of the seconds for doing it once.
void add_cost(FamilyContext& context, const std::string& what, const std::function<double()>& once, int in_a_row = 1);

void host_memory_kinds(FamilyContext& context);
void host_to_host(FamilyContext& context);
void cache_flushing(FamilyContext& context);
void zero_copy(FamilyContext& context);
void unified_demand(FamilyContext& context);
void unified_prefetch(FamilyContext& context);
void host_memory_curves(FamilyContext& context);
void host_to_host_curves(FamilyContext& context);
void zero_copy_curves(FamilyContext& context);
void unified_demand_curves(FamilyContext& context);
void unified_prefetch_curves(FamilyContext& context);
void peer_off_curves(FamilyContext& context);
void peer_access(FamilyContext& context);
void peer_kernels(FamilyContext& context);
void store_sizes(FamilyContext& context);
void latencies(FamilyContext& context);
void strided_copies(FamilyContext& context);
void halo_faces(FamilyContext& context);
void partial_chunks(FamilyContext& context);
void launch_costs(FamilyContext& context);
void allocation_costs(FamilyContext& context);
void collectives(FamilyContext& context);

}  // namespace linkwise::cuda
