#include "linkwise/join/rows_on_gpu.hpp"

#include "linkwise/device/arena.hpp"

namespace linkwise {

RowsOnGpu::RowsOnGpu(Runtime& runtime, Place place, std::uint64_t rows, std::uint64_t left_width,
                     std::uint64_t right_width)
    : count(rows) {
  const std::uint64_t right_at = align_up(rows * left_width, device_alignment);
  memory = runtime.allocate(place, right_at + rows * right_width, "joined rows");
  left = memory.slice(0, rows * left_width);
  right = memory.slice(right_at, rows * right_width);
}

}  // namespace linkwise
