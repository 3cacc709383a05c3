// Which digit a key has in its bucket, and which keys a digit takes.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/layout.cuh"

namespace linkwise::cuda::msd {

__device__ inline int bit_width(std::uint64_t value) { return 64 - __clzll(static_cast<long long>(value)); }

// Digits of equal width, any number: the distance from the lowest key, without insignificant bits, times a scale.
constexpr int scaled_bits = 21;
constexpr int scaled_digit_bits = 31;  // a digit is 2^31 units of the scaled distance wide

__device__ inline unsigned scaled_digit(std::uint32_t distance, std::uint32_t scale) {
  return __umulhi(distance << 1, scale);
}
/// Cuts a bucket whose keys span `reach` into at most `wanted` digits of equal width.
__device__ inline void cut_evenly(Bucket& bucket, std::uint64_t reach, std::uint32_t wanted) {
  bucket.shift = static_cast<std::uint32_t>(max(bit_width(reach) - scaled_bits, 0));
  const std::uint64_t distances = (reach >> bucket.shift) + 1;
  bucket.digits = static_cast<std::uint32_t>(min(distances, std::uint64_t{wanted}));
  bucket.scale = static_cast<std::uint32_t>((std::uint64_t{bucket.digits} << scaled_digit_bits) / distances);
}
/// The least distance from the lowest key that has the digit, in keys (not shifted).
__device__ inline std::uint64_t first_distance(const Bucket& bucket, unsigned digit) {
  return (((std::uint64_t{digit} << scaled_digit_bits) + bucket.scale - 1) / bucket.scale) << bucket.shift;
}

/// Digits of equal width for all keys.
template <typename Key>
struct PlainDigits {
  Key low;
  unsigned shift, scale, first;

  __device__ __forceinline__ unsigned operator()(Key key) const {
    return first + scaled_digit(static_cast<std::uint32_t>(static_cast<Key>(key - low) >> shift), scale);
  }
};

/// The digits of a bucket's keys, which are monotonic in the keys.
template <typename Key>
class Digits {
 public:
  /// `table`: the root's, in shared memory, if it has one. `is_counted`: the bucket's range is known.
  __device__ Digits(const Bucket& bucket, const Root& root, const Cell* table, bool is_counted = false)
      : low_(static_cast<Key>(bucket.low)), shift_(bucket.shift), scale_(bucket.scale), table_(table) {
    if (!bucket.is_root) return;
    first_ = 1;
    last_ = bucket.digits - 1;
    is_tabled_ = root.is_tabled != 0;
    if (is_tabled_) shift_ = root.dropped;
    cell_shift_ = root.cell_shift;
    const bool covers_these = is_counted && bucket.least >= bucket.low && bucket.greatest - bucket.low <= root.window;
    // The table has no cells beyond the window, where a partition may look for what is no key.
    if (is_tabled_ || !covers_these) window_ = static_cast<Key>(root.window);
  }

  [[nodiscard]] __device__ bool is_plain() const { return !is_tabled_ && static_cast<Key>(~window_) == 0; }
  [[nodiscard]] __device__ PlainDigits<Key> plain() const { return {low_, shift_, scale_, first_}; }

  __device__ unsigned operator()(Key key) const {
    const Key above = key - low_;
    if (above > window_) return key < low_ ? 0 : last_;  // of a key below the lowest, the difference is great as well
    const auto distance = static_cast<std::uint32_t>(above >> shift_);
    if (!is_tabled_) return first_ + scaled_digit(distance, scale_);
    const std::uint32_t within = distance & ((1u << cell_shift_) - 1);
    return first_ + table_[distance >> cell_shift_].digit(within, cell_shift_);
  }

 private:
  Key low_, window_ = static_cast<Key>(~Key{0});  // greatest distance from `low_` that has a digit of its own
  unsigned shift_, scale_, first_ = 0, cell_shift_ = 0, last_ = 0;
  bool is_tabled_ = false;
  const Cell* table_;
};

/// Whether a partition would divide the bucket: not if all its keys have the same digit.
template <typename Key>
__device__ bool is_divided(const Bucket& bucket, const Digits<Key>& digit) {
  return digit(static_cast<Key>(bucket.least)) != digit(static_cast<Key>(bucket.greatest));
}

/// Whether a partition moves the bucket's keys: to their digits, or from pages.
template <typename Key>
__device__ bool is_moved(const Bucket& bucket, const Digits<Key>& digit) {
  return bucket.is_paged || is_divided(bucket, digit);
}

struct KeySpan {
  std::uint64_t low, reach;
};

/// The range of keys that may have the digit.
__device__ inline KeySpan keys_of_digit(const Bucket& bucket, const Root& root, unsigned digit) {
  if (!bucket.is_root) {
    const std::uint64_t first = first_distance(bucket, digit);
    const std::uint64_t last =
        digit + 1 == bucket.digits ? bucket.reach : min(first_distance(bucket, digit + 1) - 1, bucket.reach);
    return {bucket.low + first, last - first};
  }
  if (digit == 0) return {0, root.low - 1};
  if (digit == bucket.digits - 1) {
    const std::uint64_t beyond = root.low + root.window + 1;
    return {beyond, bucket.reach - beyond};
  }
  const std::uint64_t first = root.digit_low[digit - 1];
  return {root.low + first, (digit + 2 == bucket.digits ? root.window : root.digit_low[digit] - 1) - first};
}

}  // namespace linkwise::cuda::msd
