// How gathers write a column's values: bits in whole bytes, and values of usual widths without a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace linkwise {

/// Calls `body` with the width as a constant where it is a usual one, so that values are copied without a call.
template <typename Body>
void with_width(std::size_t width, Body&& body) {
  switch (width) {
    case 1: return body([] { return std::size_t{1}; });
    case 2: return body([] { return std::size_t{2}; });
    case 4: return body([] { return std::size_t{4}; });
    case 8: return body([] { return std::size_t{8}; });
    case 16: return body([] { return std::size_t{16}; });
    default: return body([=] { return width; });
  }
}

/// Writes `count` bits, of which `is_set(i)` tells which are set, from the first bit of a byte on. Returns how many
/// are.
template <typename IsSet>
std::uint64_t write_bits(std::byte* to, std::uint64_t count, IsSet&& is_set) {
  std::uint64_t set = 0;
  for (std::uint64_t i = 0; i < count; i += 8) {
    unsigned byte = 0;
    for (std::uint64_t j = i; j < std::min(i + 8, count); ++j) byte |= (is_set(j) ? 1U : 0U) << (j - i);
    to[i / 8] = static_cast<std::byte>(byte);
    set += static_cast<std::uint64_t>(__builtin_popcount(byte));
  }
  return set;
}

}  // namespace linkwise
