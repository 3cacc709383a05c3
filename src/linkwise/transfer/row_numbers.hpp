// Which rows of a table are gathered.
#pragma once

#include <cstdint>

namespace linkwise {

/// Numbers of rows in host memory, of 4 or 8 bytes; of the latter, `no_row` is a null.
struct RowNumbers {
  const void* data = nullptr;
  int width = 4;
  std::uint64_t count = 0;
  bool pageable = true;

  [[nodiscard]] std::uint64_t bytes() const { return count * static_cast<std::uint64_t>(width); }
};

}  // namespace linkwise
