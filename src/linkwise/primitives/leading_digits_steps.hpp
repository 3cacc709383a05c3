// Arguments of the steps of an MSD radix sort whose first level several GPUs share, for host and device alike;
// primitives/leading_digits.hpp enqueues the steps.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

constexpr int most_leading_digits = 514;

/// How many of a source's records have each leading digit, and the range of the codes of its keys.
struct LeadingDigitCounts {
  std::uint64_t least = ~std::uint64_t{0}, greatest = 0;
  std::uint64_t digits = 0;
  std::uint64_t count[most_leading_digits] = {};
};

/// Which part takes a digit, and where in the part the source's records with that digit begin. Passed by value to
/// kernels.
struct DigitPlaces {
  std::uint32_t digits = 0;
  std::uint8_t part[most_leading_digits] = {};
  std::uint32_t begin[most_leading_digits] = {};
};

/// The digits [first, end) that a part has received, and where each begins in it. Passed by value to kernels.
struct ReceivedDigits {
  std::uint32_t digits = 0;  ///< of all parts
  std::uint32_t first = 0, end = 0;
  std::uint32_t begin[most_leading_digits + 1] = {};      ///< 0 before `first`, and the part's count from `end` on
  std::uint64_t least = ~std::uint64_t{0}, greatest = 0;  ///< of all parts' codes
};

}  // namespace linkwise
