// Key and value types of the primitives: keys are unsigned integers of 32 or 64 bits, values are opaque bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "linkwise/error.hpp"

#ifdef __CUDACC__
#define LINKWISE_BOTH __host__ __device__
#else
#define LINKWISE_BOTH
#endif

namespace linkwise {

enum class KeyWidth : std::uint8_t { k32 = 4, k64 = 8 };
enum class ValueWidth : std::uint8_t { none = 0, v4 = 4, v8 = 8, v16 = 16 };

struct RecordType {
  KeyWidth key = KeyWidth::k32;
  ValueWidth value = ValueWidth::none;

  [[nodiscard]] std::uint64_t key_bytes() const { return static_cast<std::uint64_t>(key); }
  [[nodiscard]] std::uint64_t value_bytes() const { return static_cast<std::uint64_t>(value); }
  [[nodiscard]] std::uint64_t bytes() const { return key_bytes() + value_bytes(); }
  [[nodiscard]] int key_bits() const { return 8 * static_cast<int>(key_bytes()); }
  friend bool operator==(RecordType, RecordType) = default;
};

/// The key types of the public interface.
///
/// Each is mapped to an unsigned integer so that the order of the codes is the order of the keys:
/// integers by value; floats by value with -0.0 before 0.0 and every NaN, whatever its sign, after
/// +infinity (NaNs among themselves by their bits). The map is one-to-one, so decoding restores the original
/// bits. Descending order complements the codes.
enum class KeyType : std::uint8_t { u8, u16, u32, u64, i8, i16, i32, i64, f16, f32, f64 };

constexpr int native_bytes(KeyType type) {
  switch (type) {
    case KeyType::u8:
    case KeyType::i8: return 1;
    case KeyType::u16:
    case KeyType::i16:
    case KeyType::f16: return 2;
    case KeyType::u32:
    case KeyType::i32:
    case KeyType::f32: return 4;
    case KeyType::u64:
    case KeyType::i64:
    case KeyType::f64: return 8;
  }
  return 0;
}

constexpr KeyWidth key_width(KeyType type) { return native_bytes(type) == 8 ? KeyWidth::k64 : KeyWidth::k32; }
/// Whether keys are widened to sort them.
constexpr bool is_narrow(KeyType type) { return native_bytes(type) < 4; }

/// The type of that width whose keys are their own codes.
constexpr KeyType code_type(KeyWidth width) { return width == KeyWidth::k32 ? KeyType::u32 : KeyType::u64; }

enum class KeyClass : std::uint8_t { unsigned_integer, signed_integer, floating };

constexpr KeyClass key_class(KeyType type) {
  if (type <= KeyType::u64) return KeyClass::unsigned_integer;
  return type <= KeyType::i64 ? KeyClass::signed_integer : KeyClass::floating;
}

/// Whether the native bytes are the codes already.
constexpr bool is_own_code(KeyType type, bool descending) {
  return (type == KeyType::u32 || type == KeyType::u64) && !descending;
}

/// The number of mantissa bits of a floating type of that size.
constexpr int mantissa_bits(std::size_t bytes) { return bytes == 8 ? 52 : bytes == 4 ? 23 : bytes == 2 ? 10 : 3; }

/// The bits [begin, end) of a key that a sort looks at.
struct BitRange {
  int begin = 0;
  int end = 0;
};

constexpr int max_destinations = 64;

/// Cuts records into at most `max_destinations` parts: the destination of a record with key k at position p of
/// its source is the number of splitters at or before it. Splitter i is at or before it if its key is less
/// than k, or equal to k and `position[i] <= p`. Passed by value to kernels.
struct Splitters {
  int count = 0;  ///< destinations - 1
  std::uint64_t key[max_destinations - 1] = {};
  std::uint64_t position[max_destinations - 1] = {};
};

/// The keys that a histogram counts: those with one of these prefixes above its bits. Passed by value to kernels.
struct Prefixes {
  int count = 0;                                   ///< 0: all keys
  std::uint64_t value[max_destinations - 1] = {};  ///< in ascending order
};

/// The distribution of a sample's keys, which decides between the sorts of a GPU.
struct KeySpread {
  std::uint32_t in_digits = 0;         ///< keys in digits of the first level that cover at least four keys …
  std::uint32_t in_first_quarter = 0;  ///< … and of these, in the first quarter of the digit's range
  std::uint32_t compared = 0;          ///< keys that were sorted …
  std::uint32_t equal = 0;             ///< … and of these, how many equal the next, …
  std::uint32_t crowded = 0;           ///< … how many differ from it and share its part after two levels, …
  std::uint32_t crowded_if_even = 0;   ///< … and how many would if keys were uniformly distributed
  std::uint32_t sampled = 0;           ///< if there are very many records: the keys of the whole sample …
  std::uint32_t repeated = 0;          ///< … and of these, how many equal one before
  std::uint32_t is_narrow = 0;         ///< whether they differ by less than 2^32, and have 64 bits
};

/// What an MSD sort expects of its keys: `narrow`, that they may be as `KeySpread::is_narrow` says, which is checked.
enum class ExpectedKeys : std::uint8_t { wide, narrow };

/// Which of an MSD sort's buffers (input, result and room, a spare one; all of the same length) are the same memory.
enum class SortBuffers : std::uint8_t { three, room_is_input, result_is_input };

/// How native keys become codes, which are in order as unsigned integers: primitives/encoding.hpp.
struct KeyCoding {
  KeyType type = KeyType::u64;
  bool descending = false;
};

/// The coding of keys that are codes already.
constexpr KeyCoding own_codes(KeyWidth width) { return {width == KeyWidth::k32 ? KeyType::u32 : KeyType::u64, false}; }

/// What `check_part` reports of a sorted part that is not empty.
struct PartNumbers {
  std::uint64_t checksum = 0, violations = 0, first_key = 0, last_key = 0;
};

/// Totals of what one side of a join finds on the other.
struct MatchTotals {
  std::uint64_t matches = 0;       ///< pairs of equal keys
  std::uint64_t matched_rows = 0;  ///< probe rows with at least one match
  std::uint64_t probe_sum = 0;     ///< sum over the pairs of the probe side's values, modulo 2^64
  std::uint64_t build_sum = 0;     ///< the same of the build side's values
};

/// The rows of a key that both sides of a join have: all rows of the left range match all rows of the right one
/// (join25 §3.3.3).
struct alignas(16) KeyRange {
  std::uint32_t left_begin = 0, left_end = 0;
  std::uint32_t right_begin = 0, right_end = 0;
};
LINKWISE_BOTH constexpr KeyRange swapped(const KeyRange& range) {
  return {range.right_begin, range.right_end, range.left_begin, range.left_end};
}
/// A tile is `keys_of_range_tile` rows of the shorter side: where its KeyRanges lie among those of all tiles.
struct RangeTile {
  std::uint32_t begin = 0, count = 0;
};
constexpr std::uint64_t keys_of_range_tile = 1024;
struct RangeTotals {
  std::uint64_t ranges = 0;   ///< keys that both sides have
  std::uint64_t matches = 0;  ///< pairs of equal keys
};

/// The rows that a probe row adds to the result.
enum class Emission : std::uint8_t { pairs, pairs_or_one, one_if_matched, one_if_unmatched };

LINKWISE_BOTH constexpr std::uint64_t rows_emitted(Emission emission, std::uint64_t matches) {
  switch (emission) {
    case Emission::pairs: return matches;
    case Emission::pairs_or_one: return matches > 0 ? matches : 1;
    case Emission::one_if_matched: return matches > 0 ? 1 : 0;
    case Emission::one_if_unmatched: return matches > 0 ? 0 : 1;
  }
  return 0;
}

/// Whether it matters only whether a row matches, not with which others.
LINKWISE_BOTH constexpr bool asks_whether(Emission emission) {
  return emission == Emission::one_if_matched || emission == Emission::one_if_unmatched;
}

/// `probe` reports for each row where its key begins on the build side, or where it would begin if it occurred there;
/// the highest bit is set if it does not occur.
constexpr std::uint32_t unmatched_bit = 1u << 31;
constexpr std::uint64_t max_build_rows = unmatched_bit - 1;
/// In place of a position on a side that has no row.
constexpr std::uint32_t no_position = ~0u;

/// An integer type: 4 or 8 bytes.
struct IntegerType {
  int bytes = 4;
  bool is_signed = false;
};

/// The range of an integer column's codes: unsigned numbers in the order of the integers, whatever their width.
struct CodeRange {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t greatest = 0;
};

/// How a column of integers goes into keys: see primitives/packing.hpp.
struct Packing {
  IntegerType type;
  std::uint64_t least = 0;
  int bits = 0;
  bool is_first = false;
};

inline KeyWidth to_key_width(int bytes) {
  if (bytes != 4 && bytes != 8) throw UsageError("keys have 4 or 8 bytes, not " + std::to_string(bytes));
  return static_cast<KeyWidth>(bytes);
}

inline ValueWidth to_value_width(int bytes) {
  if (bytes != 0 && bytes != 4 && bytes != 8 && bytes != 16)
    throw UsageError("values have 0, 4, 8 or 16 bytes, not " + std::to_string(bytes));
  return static_cast<ValueWidth>(bytes);
}

}  // namespace linkwise
