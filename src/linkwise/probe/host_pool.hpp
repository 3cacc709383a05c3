// Pinned memory, in windows of which measured copies are made.
//
// The placement of host memory determines how fast GPUs access it, but a virtual machine does not expose it: one
// buffer may be on the near socket and the next on the far one. So the repetitions of a copy use windows that are far
// apart, and their mean is reported: what a copy of data as large as all these windows would reach.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

class HostPool {
 public:
  /// Allocates `bytes` to send from, and as many to receive in.
  HostPool(Runtime& runtime, std::uint64_t bytes);
  /// Uses the caller's memory, which is overwritten.
  HostPool(MemoryView source, MemoryView target);

  /// The number of windows: a power of two, or 0 if not even one fits.
  [[nodiscard]] std::uint64_t windows(std::uint64_t window_bytes) const;
  /// Window number `index` of the `together` windows that are in use at once in this repetition.
  [[nodiscard]] MemoryView source_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                         int repetition) const;
  [[nodiscard]] MemoryView target_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                         int repetition) const;
  /// The source holds consecutive 64-bit numbers; returns the first one of a window.
  [[nodiscard]] std::uint64_t first_number(const MemoryView& window) const;

 private:
  void fill();
  [[nodiscard]] std::uint64_t offset(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                     int repetition) const;

  std::vector<Buffer> own_;
  MemoryView source_, target_;
};

}  // namespace linkwise
