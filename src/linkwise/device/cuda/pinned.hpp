// Page-locked host memory that outlives any runtime: what linkwise.empty gives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace linkwise {

/// Huge pages, touched by all cores at once and then registered with CUDA: several times faster than
/// cudaHostAlloc, which faults pages in one by one. Where CUDA cannot be used it is ordinary memory.
class PinnedMemory {
 public:
  /// Of a NUMA node's memory, or, for -1, of that beside whichever core touches a page first.
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

/// Has those pages that nobody has touched yet come from a NUMA node. False, and `errno`, if the system does not.
bool bind_to_node(std::byte* data, std::uint64_t bytes, int node);

/// Whether the host memory at this address is page-locked: made above, or known to CUDA as such.
bool is_pinned(const void* data);

}  // namespace linkwise
