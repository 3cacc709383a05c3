// Finds the largest size that fits into the available memory.
#pragma once

#include <cstdint>

namespace linkwise {

/// The largest size below `too_large` that fits; 0 if none does. If a size fits, every smaller one must fit too.
template <typename Fits>
std::uint64_t largest_that_fits(std::uint64_t too_large, Fits&& fits) {
  std::uint64_t low = 0;
  while (too_large - low > 1) {
    const std::uint64_t middle = low + (too_large - low) / 2;
    if (fits(middle)) low = middle;
    else too_large = middle;
  }
  return low;
}

}  // namespace linkwise
