// Dispatches run-time key and value widths to template arguments.
#pragma once

#include <cstdint>
#include <type_traits>

#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

struct NoValue {};
struct alignas(16) Value16 {
  std::uint64_t low = 0, high = 0;
};

/// A row's number as a value; in 16-byte values the upper half is 0.
template <typename Value>
LINKWISE_BOTH constexpr Value row_number(std::uint64_t row) {
  if constexpr (std::is_same_v<Value, Value16>) return {row, 0};
  else return static_cast<Value>(row);
}

/// The checksum of a multiset of records is the sum of their hashes, modulo 2^64. Changing one key or value always
/// changes it, and so does losing a record, but for one of 2^64; several errors cancel out with a chance of about
/// 2^-63.
///
/// A hash is a constant plus what `varying_hash` makes of the record: the constants of many can be added at once. Of a
/// 32-bit key alone it is the square, because checking these is bound by instructions.
constexpr std::uint64_t constant_hash = 0x9e3779b97f4a7c15ULL;
template <typename Key, typename Value>
LINKWISE_BOTH std::uint64_t varying_hash(Key key, const Value& value) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15ULL, other_odd = 0xc2b2ae3d27d4eb4fULL;
  if constexpr (std::is_same_v<Value, NoValue> && sizeof(Key) == 4) return std::uint64_t{key} * key;
  else if constexpr (std::is_same_v<Value, NoValue>) return mix64(key);
  else if constexpr (sizeof(Key) + sizeof(Value) == 8) return mix64(std::uint64_t{key} << 32 | value);
  else if constexpr (std::is_same_v<Value, Value16>) {
    const std::uint64_t high = value.high * other_odd;
    return mix64(key ^ (value.low * odd) ^ (high << 32 | high >> 32));
  } else return mix64(key ^ value * odd);
}
template <typename Key, typename Value>
LINKWISE_BOTH std::uint64_t record_hash(Key key, const Value& value) {
  return varying_hash(key, value) + constant_hash;
}

template <typename Element>
LINKWISE_BOTH constexpr Element all_ones() {
  if constexpr (std::is_same_v<Element, Value16>) return {~0ULL, ~0ULL};
  else return static_cast<Element>(~Element{0});
}

template <typename Type>
struct Tag {
  using type = Type;
};

/// Calls body(Tag<Key>{}).
template <typename Body>
void with_key(KeyWidth width, Body&& body) {
  if (width == KeyWidth::k32) body(Tag<std::uint32_t>{});
  else body(Tag<std::uint64_t>{});
}

/// Calls body(Tag<Value>{}); NoValue for width 0.
template <typename Body>
void with_value(ValueWidth width, Body&& body) {
  switch (width) {
    case ValueWidth::none: return body(Tag<NoValue>{});
    case ValueWidth::v4: return body(Tag<std::uint32_t>{});
    case ValueWidth::v8: return body(Tag<std::uint64_t>{});
    case ValueWidth::v16: return body(Tag<Value16>{});
  }
}

/// Calls body(Tag<Key>{}, Tag<Value>{}).
template <typename Body>
void with_record(RecordType type, Body&& body) {
  with_key(type.key, [&](auto key) { with_value(type.value, [&](auto value) { body(key, value); }); });
}

/// Calls body(Tag<Bits>{}) with the unsigned integer of 1, 2, 4 or 8 bytes.
template <typename Body>
void with_bits(int bytes, Body&& body) {
  switch (bytes) {
    case 1: return body(Tag<std::uint8_t>{});
    case 2: return body(Tag<std::uint16_t>{});
    case 4: return body(Tag<std::uint32_t>{});
    default: return body(Tag<std::uint64_t>{});
  }
}

}  // namespace linkwise
