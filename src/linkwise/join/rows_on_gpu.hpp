// A GPU's rows of a join's result, which stay there.
#pragma once

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// What both sides show of each row.
struct RowsOnGpu {
  std::uint64_t count = 0;
  Buffer memory;
  MemoryView left, right;

  RowsOnGpu() = default;
  /// In fresh memory; columns of no width are empty.
  RowsOnGpu(Runtime& runtime, Place place, std::uint64_t rows, std::uint64_t left_width, std::uint64_t right_width);
};

}  // namespace linkwise
