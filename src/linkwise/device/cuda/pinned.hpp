// Pinned host memory that does not depend on a runtime: what linkwise.empty returns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace linkwise {

/// Huge pages, touched by all cores at once and then registered with CUDA: several times faster than
/// cudaHostAlloc, which faults pages in one by one. Where CUDA cannot be used it is ordinary memory.
class PinnedMemory {
 public:
  /// Allocates on a NUMA node or, for -1, each page on the node of the core that touches it first.
  /// @throws OutOfMemoryError; UsageError if there is no such node.
  explicit PinnedMemory(std::uint64_t bytes, int numa_node = -1);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool registered_ = false;
};

/// Binds the pages that have not been touched yet to a NUMA node. False, with `errno`, if the system does not allow
/// it.
bool bind_to_node(std::byte* data, std::uint64_t bytes, int node);

/// Whether the host memory at this address is pinned: allocated by PinnedMemory, or known to CUDA as pinned.
bool is_pinned(const void* data);

}  // namespace linkwise
