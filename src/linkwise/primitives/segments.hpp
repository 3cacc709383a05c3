// Pivot selection over sorted sequences that lie in pieces, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

LINKWISE_BOTH inline std::uint64_t total_length(const RawSegments& segments) {
  std::uint64_t sum = 0;
  for (int s = 0; s < segments.count; ++s) sum += segments.length[s];
  return sum;
}

template <typename Key>
LINKWISE_BOTH Key key_at(const RawSegments& segments, std::uint64_t position) {
  int s = 0;
  while (position >= segments.length[s]) position -= segments.length[s++];
  return static_cast<const Key*>(segments.keys[s])[position];
}

/// sort22, algorithm 1: a binary search for the least p such that left[|left| - p - 1] ≤ right[p], with
/// the condition met by definition where a side runs out. Because p is the least, the keys of right that
/// move are strictly less than those of left that move, so merging what was exchanged stays stable.
template <typename Key>
LINKWISE_BOTH std::uint64_t leftmost_pivot(const RawSegments& left, const RawSegments& right) {
  const std::uint64_t left_length = total_length(left), right_length = total_length(right);
  std::uint64_t low = 0, high = left_length < right_length ? left_length : right_length;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (key_at<Key>(left, left_length - middle - 1) <= key_at<Key>(right, middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

}  // namespace linkwise
