// One column of the rows' keys, in host memory and Arrow's layout
// (https://arrow.apache.org/docs/format/Columnar.html), and the order of its values.
//
// Numbers are in the order of their codes (see KeyType), false comes before true, and strings and bytes are in the
// order of their bytes, which for UTF-8 is that of the code points. Nulls are equal to each other.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

struct KeyColumn {
  enum class Layout : std::uint8_t {
    nothing,       ///< only nulls
    boolean,       ///< bits
    number,        ///< of `type`
    wide_integer,  ///< two's complement of `width` bytes: a multiple of 8
    fixed_bytes,   ///< `width` bytes each
    bytes32,       ///< between offsets of 32 bits
    bytes64,       ///< between offsets of 64 bits
    views,         ///< 16 bytes each: the length, and the bytes or where they are
  };
  Layout layout = Layout::number;
  KeyType type = KeyType::u32;
  int width = 0;
  bool descending = false, nulls_first = false;
  std::uint64_t count = 0;
  std::uint64_t offset = 0;                ///< of the first row, in everything below
  const std::uint8_t* validity = nullptr;  ///< a bit each; null: no nulls
  const std::byte* values = nullptr;       ///< numbers, bits, views, or all bytes
  const void* offsets = nullptr;
  const std::byte* const* buffers = nullptr;  ///< those that views point into

  [[nodiscard]] bool is_bytes() const { return layout >= Layout::fixed_bytes; }
  [[nodiscard]] bool is_null(std::uint64_t row) const {
    return layout == Layout::nothing || (validity != nullptr && !bit(validity, offset + row));
  }
  /// How many words of at most 64 bits a number has; 0 for a column of bytes.
  [[nodiscard]] int limbs() const { return layout == Layout::wide_integer ? width / 8 : is_bytes() ? 0 : 1; }

  /// Limb `limb` of a number, the most significant first, in the column's direction; 0 for a null.
  [[nodiscard]] std::uint64_t code(std::uint64_t row, int limb) const {
    if (is_null(row)) return 0;
    const std::uint64_t at = offset + row;
    switch (layout) {
      case Layout::boolean: return (bit(values, at) ? 1U : 0U) ^ (descending ? 1U : 0U);
      case Layout::number: return number_code(at);
      case Layout::wide_integer: return limb_code(at, limb);
      default: return 0;
    }
  }

  /// The bytes of a value in a column of bytes; empty for a null.
  [[nodiscard]] std::string_view bytes(std::uint64_t row) const {
    if (is_null(row)) return {};
    const std::uint64_t at = offset + row;
    switch (layout) {
      case Layout::fixed_bytes: return view_of(values + at * width_bytes(), width_bytes());
      case Layout::bytes32: return between<std::int32_t>(at);
      case Layout::bytes64: return between<std::int64_t>(at);
      case Layout::views: return view(at);
      default: return {};
    }
  }

 private:
  template <typename Bytes>
  static bool bit(const Bytes* bits, std::uint64_t at) {
    return (static_cast<unsigned>(bits[at / 8]) >> (at % 8) & 1U) != 0;
  }
  static std::string_view view_of(const std::byte* data, std::uint64_t length) {
    return {reinterpret_cast<const char*>(data), length};
  }
  template <typename Word>
  static Word load(const void* data, std::uint64_t index) {
    Word word;
    std::memcpy(&word, static_cast<const std::byte*>(data) + index * sizeof(Word), sizeof(Word));
    return word;
  }
  [[nodiscard]] std::uint64_t width_bytes() const { return static_cast<std::uint64_t>(width); }

  [[nodiscard]] std::uint64_t number_code(std::uint64_t at) const {
    std::uint64_t code = 0;
    with_bits(native_bytes(type), [&](auto tag) {
      using Bits = typename decltype(tag)::type;
      code = encode_bits<Bits>(load<Bits>(values, at), key_class(type), descending);
    });
    return code;
  }
  [[nodiscard]] std::uint64_t limb_code(std::uint64_t at, int limb) const {
    const int limbs = width / 8;
    const auto index = at * static_cast<std::uint64_t>(limbs) + static_cast<std::uint64_t>(limbs - 1 - limb);
    const KeyClass signed_first = limb == 0 ? KeyClass::signed_integer : KeyClass::unsigned_integer;
    return encode_bits<std::uint64_t>(load<std::uint64_t>(values, index), signed_first, descending);
  }
  template <typename Offset>
  [[nodiscard]] std::string_view between(std::uint64_t at) const {
    const auto first = load<Offset>(offsets, at), last = load<Offset>(offsets, at + 1);
    return view_of(values + first, static_cast<std::uint64_t>(last - first));
  }
  [[nodiscard]] std::string_view view(std::uint64_t at) const {
    constexpr std::uint32_t longest_inline = 12;
    const std::byte* entry = values + 16 * at;
    const auto length = load<std::uint32_t>(entry, 0);
    if (length <= longest_inline) return view_of(entry + 4, length);
    return view_of(buffers[load<std::uint32_t>(entry, 2)] + load<std::uint32_t>(entry, 3), length);
  }
};

/// The length of the common prefix, of which the first `from` bytes are known to be equal.
std::uint64_t shared_prefix(std::string_view a, std::string_view b, std::uint64_t from);

/// The lengths of a column's values of bytes, nulls left out, and how many leading bytes all of them share.
struct BytesExtent {
  std::uint64_t prefix = 0, shortest = 0, longest = 0;
};
/// Of a column in parts.
BytesExtent bytes_extent(std::span<const KeyColumn* const> parts);

/// Three-way comparison of two rows, in columns of the same type and order: less than 0, 0 or more.
int compare(const KeyColumn& a, std::uint64_t row_a, const KeyColumn& b, std::uint64_t row_b);

}  // namespace linkwise
