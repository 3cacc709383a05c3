// The order-preserving map between native key bits and codes, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// A float's code: as usual, complement negatives and set the sign bit of the others; then subtract the number of
/// NaNs with a sign bit, which would come before -infinity, so that their codes wrap around to the end of the order.
template <typename Bits>
LINKWISE_BOTH constexpr Bits encode_bits(Bits bits, KeyClass key_class, bool descending) {
  constexpr int width = 8 * sizeof(Bits);
  constexpr Bits sign = Bits(Bits(1) << (width - 1));
  Bits code = bits;
  if (key_class == KeyClass::signed_integer) {
    code = bits ^ sign;
  } else if (key_class == KeyClass::floating) {
    constexpr Bits signed_nans = Bits((Bits(1) << mantissa_bits(sizeof(Bits))) - 1);
    code = Bits(((bits & sign) != 0 ? Bits(~bits) : Bits(bits | sign)) - signed_nans);
  }
  return descending ? Bits(~code) : code;
}

template <typename Bits>
LINKWISE_BOTH constexpr Bits decode_bits(Bits code, KeyClass key_class, bool descending) {
  constexpr int width = 8 * sizeof(Bits);
  constexpr Bits sign = Bits(Bits(1) << (width - 1));
  const Bits ascending = descending ? Bits(~code) : code;
  if (key_class == KeyClass::signed_integer) return ascending ^ sign;
  if (key_class == KeyClass::unsigned_integer) return ascending;
  constexpr Bits signed_nans = Bits((Bits(1) << mantissa_bits(sizeof(Bits))) - 1);
  const Bits flipped = Bits(ascending + signed_nans);
  return (flipped & sign) != 0 ? Bits(flipped ^ sign) : Bits(~flipped);
}

/// The code by which joins compare floats of sizeof(Bits) bytes: -0.0 equals 0.0, and all NaNs are equal.
template <typename Bits, typename Code>
LINKWISE_BOTH constexpr Code unified_float(Code code) {
  constexpr int width = 8 * sizeof(Bits), mantissa = mantissa_bits(sizeof(Bits));
  constexpr Bits sign = Bits(Bits(1) << (width - 1));
  constexpr Bits infinity = Bits(Bits(Bits(sign - 1) >> mantissa) << mantissa);
  constexpr Code minus_zero = encode_bits<Bits>(sign, KeyClass::floating, false);
  constexpr Code greatest = encode_bits<Bits>(infinity, KeyClass::floating, false);
  if (code == minus_zero) return minus_zero + 1;
  return code > greatest ? greatest + 1 : code;
}

/// A well-mixed 64-bit hash, bijective, for checksums and sampling: Lea's mixer (Steele and Vigna, "LXM: Better
/// Splittable Pseudorandom Number Generators", OOPSLA 2021), whose shifts by 32 bits cost one instruction on a GPU.
/// The offset keeps twice a small number from having twice its hash.
LINKWISE_BOTH constexpr std::uint64_t mix64(std::uint64_t x) {
  constexpr std::uint64_t odd = 0xdaba0b6eb09322e3ULL, offset = 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 32) ^ offset) * odd;
  x = (x ^ (x >> 32)) * odd;
  return x ^ (x >> 32);
}

/// A bijective hash: the finaliser of MurmurHash3 (public domain constants), and the mixer above.
LINKWISE_BOTH constexpr std::uint32_t hash_of(std::uint32_t key) {
  key = (key ^ (key >> 16)) * 0x85ebca6bU;
  key = (key ^ (key >> 13)) * 0xc2b2ae35U;
  return key ^ (key >> 16);
}
LINKWISE_BOTH constexpr std::uint64_t hash_of(std::uint64_t key) { return mix64(key); }

/// The hash of a row's columns up to one, given that of those before it, which is 0 at first.
LINKWISE_BOTH constexpr std::uint64_t row_hash_with(std::uint64_t hash, std::uint64_t element) {
  return mix64(hash ^ element);
}

/// The position of sample i of n among `count` keys: one at random in each of n strata. The longer strata are spread
/// evenly among the others; otherwise clusters of similar neighbouring keys would be over- or under-sampled.
LINKWISE_BOTH constexpr std::uint64_t sample_position(std::uint64_t i, std::uint64_t n, std::uint64_t count,
                                                      std::uint64_t seed) {
  const std::uint64_t stride = count / n, longer = count % n;
  const std::uint64_t begin = i * stride + i * longer / n, end = (i + 1) * stride + (i + 1) * longer / n;
  return begin + (end - begin <= 1 ? 0 : mix64(seed ^ i) % (end - begin));
}

/// The destination of a record; see Splitters.
template <typename Key>
LINKWISE_BOTH int destination_of(const Splitters& splitters, Key key, std::uint64_t position) {
  int low = 0, high = splitters.count;  // the first splitter that is after the record
  while (low < high) {
    const int middle = (low + high) / 2;
    const Key splitter = static_cast<Key>(splitters.key[middle]);
    const bool at_or_before = splitter < key || (splitter == key && splitters.position[middle] <= position);
    if (at_or_before) low = middle + 1;
    else high = middle;
  }
  return low;
}

}  // namespace linkwise
