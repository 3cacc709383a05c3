// Page-locked memory that measured copies go through, window by window.
//
// Where memory lies decides how fast GPUs reach it, and in a virtual machine nobody says where that is: one buffer may
// lie behind the near socket and the next behind the far one. So repetitions of a copy use windows that are far apart,
// and what counts is their mean, as for data that is as large as all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

class HostPool {
 public:
  /// Memory of its own: so many bytes to send from, and as many to receive in.
  HostPool(Runtime& runtime, std::uint64_t bytes);
  /// The caller's, which is overwritten.
  HostPool(MemoryView source, MemoryView target);

  /// How many windows there are, a power of two; 0 if not even one fits.
  [[nodiscard]] std::uint64_t windows(std::uint64_t window_bytes) const;
  /// One of `together` windows that are in use at once, at this repetition.
  [[nodiscard]] MemoryView source_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                         int repetition) const;
  [[nodiscard]] MemoryView target_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                         int repetition) const;
  /// The source holds consecutive numbers of 64 bits: the first of a window.
  [[nodiscard]] std::uint64_t first_number(const MemoryView& window) const;

 private:
  void fill();
  [[nodiscard]] std::uint64_t offset(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                     int repetition) const;

  std::vector<Buffer> own_;
  MemoryView source_, target_;
};

}  // namespace linkwise
