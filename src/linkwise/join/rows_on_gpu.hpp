// A GPU's rows of a join's result that stays on the GPUs.
#pragma once

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// For each row, the left side's and the right side's value.
struct RowsOnGpu {
  std::uint64_t count = 0;
  Buffer memory;
  MemoryView left, right;

  RowsOnGpu() = default;
  /// Allocates the memory; columns of width 0 are empty.
  RowsOnGpu(Runtime& runtime, Place place, std::uint64_t rows, std::uint64_t left_width, std::uint64_t right_width);
};

}  // namespace linkwise
