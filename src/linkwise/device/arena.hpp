// Stack arenas: one physical allocation, many virtual ones (join25 §3.1.3).
//
// Physical allocations are slow (276 ms for 16 GB on the paper's AC922), so sorts and joins allocate once and
// sub-allocate from that. An allocation goes to the top of the stack; a release lowers the top to the end of the
// highest live allocation, so the arena defragments itself whatever the order of releases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

namespace linkwise {

inline constexpr std::uint64_t device_alignment = 128;
inline constexpr std::uint64_t host_alignment = 16;

constexpr std::uint64_t align_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Bookkeeping only: offsets into `capacity` bytes. Not thread-safe.
class StackArena {
 public:
  StackArena(std::uint64_t capacity, std::uint64_t alignment) : capacity_(capacity), alignment_(alignment) {}

  /// Returns the offset of `bytes` bytes (at least one alignment unit), or `none` if they do not fit on top.
  std::uint64_t allocate(std::uint64_t bytes);
  /// @throws ProgramError if nothing alive starts at `offset`.
  void release(std::uint64_t offset);

  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t top() const { return top_; }
  [[nodiscard]] bool empty() const { return live_.empty(); }

  static constexpr std::uint64_t none = ~std::uint64_t{0};

 private:
  struct Allocation {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  std::uint64_t capacity_;
  std::uint64_t alignment_;
  std::uint64_t top_ = 0;
  std::list<Allocation> live_;  // by rising offset
};

/// Where an arena's physical memory comes from.
struct PhysicalMemory {
  std::function<std::byte*(std::uint64_t bytes)> allocate;  ///< throws OutOfMemoryError
  std::function<void(std::byte* data, std::uint64_t bytes)> release;
};

/// A source of GPU memory other than CUDA's allocator: an engine's pool. Its functions are called by the thread that
/// uses the runtime, for blocks that are sub-allocated many times, and for the last time when the runtime is
/// destroyed.
struct GpuMemory {
  /// Memory on that GPU, aligned to 256 bytes and as accessible to its peers as cudaMalloc's.
  /// @throws OutOfMemoryError.
  std::function<std::byte*(int gpu, std::uint64_t bytes)> allocate;
  std::function<void(int gpu, std::byte* data, std::uint64_t bytes)> release;
  /// Bytes that `allocate` can still give.
  std::function<std::uint64_t(int gpu)> available;

  /// @throws UsageError if one of them is missing.
  void check() const;
  [[nodiscard]] PhysicalMemory of(int gpu) const;
};

/// Stack arenas that grow by whole physical blocks, up to a limit.
class Arena {
 public:
  Arena(std::string name, PhysicalMemory memory, std::uint64_t alignment, std::uint64_t limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Adds one block with room for `bytes` bytes, unless a block has that room already.
  void reserve(std::uint64_t bytes);
  /// @throws OutOfMemoryError naming the arena, what was asked and the limit.
  std::byte* allocate(std::uint64_t bytes);
  void release(std::byte* data);
  /// Releases empty blocks to their source.
  void trim();
  /// Replaces the limit on the total size of the blocks. Existing allocations stay.
  void set_limit(std::uint64_t limit) { limit_ = limit; }

  [[nodiscard]] std::uint64_t reserved() const;
  /// The most bytes that one allocation can get: on top of a block, or as a block of its own, once the empty ones are
  /// released to a source that can give `available` bytes.
  [[nodiscard]] std::uint64_t largest_allocation(std::uint64_t available) const;

 private:
  struct Block {
    std::byte* data;
    StackArena arena;
  };
  std::byte* allocate_physical(std::uint64_t bytes);
  void add_block(std::uint64_t bytes);

  std::string name_;
  PhysicalMemory memory_;
  std::uint64_t alignment_;
  std::uint64_t limit_;
  std::vector<Block> blocks_;
};

}  // namespace linkwise
