// The gather map: which rows of a table are gathered.
#pragma once

#include <cstdint>

namespace linkwise {

/// Row numbers in host memory, of 4 or 8 bytes; among those of 8 bytes, `no_row` stands for a null.
struct RowNumbers {
  const void* data = nullptr;
  int width = 4;
  std::uint64_t count = 0;
  bool pageable = true;

  [[nodiscard]] std::uint64_t bytes() const { return count * static_cast<std::uint64_t>(width); }
};

}  // namespace linkwise
