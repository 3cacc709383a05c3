// An array that lies in pieces on several devices, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

constexpr int max_gather_pieces = 32;

/// Piece p holds elements begin[p] to begin[p + 1], from data[p] on.
struct RawPieces {
  int count = 0;
  std::uint64_t begin[max_gather_pieces + 1] = {};
  const void* data[max_gather_pieces] = {};
};

/// The first of two row numbers or, where it stands for no row, the second + offset, if that does not.
template <typename Index>
LINKWISE_BOTH constexpr Index coalesced(Index first, Index second, std::uint64_t offset) {
  constexpr auto no_row = static_cast<Index>(~Index{0});
  if (first != no_row) return first;
  return second == no_row ? no_row : static_cast<Index>(second + offset);
}

/// Columns whose rows are packed into records of 16 or 32 bytes: the fields of a record, each at a multiple of its
/// bytes.
struct RawFields {
  static constexpr int most = 8;
  int count = 0;
  int bytes[most] = {}, offset[most] = {};
  void* column[most] = {};
};

/// A record of packed fields.
template <int bytes>
struct alignas(16) PackedRow {
  static constexpr int words = bytes / 8;
  std::uint64_t word[words] = {};

  /// `first`: where in a record these bytes begin, if they are a part of it.
  LINKWISE_BOTH void set(const RawFields& fields, int f, std::uint64_t row, int first = 0) {
    const int at = fields.offset[f] - first;
    word[at / 8] |= element(fields, f, row) << 8 * (at % 8);
  }
  LINKWISE_BOTH void get(const RawFields& fields, int f, std::uint64_t row) const {
    const std::uint64_t value = word[fields.offset[f] / 8] >> 8 * (fields.offset[f] % 8);
    switch (fields.bytes[f]) {
      case 1: static_cast<std::uint8_t*>(fields.column[f])[row] = static_cast<std::uint8_t>(value); break;
      case 2: static_cast<std::uint16_t*>(fields.column[f])[row] = static_cast<std::uint16_t>(value); break;
      case 4: static_cast<std::uint32_t*>(fields.column[f])[row] = static_cast<std::uint32_t>(value); break;
      default: static_cast<std::uint64_t*>(fields.column[f])[row] = value;
    }
  }

 private:
  static LINKWISE_BOTH std::uint64_t element(const RawFields& fields, int f, std::uint64_t row) {
    switch (fields.bytes[f]) {
      case 1: return static_cast<const std::uint8_t*>(fields.column[f])[row];
      case 2: return static_cast<const std::uint16_t*>(fields.column[f])[row];
      case 4: return static_cast<const std::uint32_t*>(fields.column[f])[row];
      default: return static_cast<const std::uint64_t*>(fields.column[f])[row];
    }
  }
};

/// Calls body(PackedRow<bytes>{}).
template <typename Body>
void with_record_bytes(int bytes, Body&& body) {
  if (bytes == 16) body(PackedRow<16>{});
  else body(PackedRow<32>{});
}

LINKWISE_BOTH inline int piece_of(const RawPieces& pieces, std::uint64_t element) {
  int p = 0;
  while (element >= pieces.begin[p + 1]) ++p;  // linear: pieces are few, and threads of a warp diverge little
  return p;
}

template <typename Element>
LINKWISE_BOTH const Element& element_of(const RawPieces& pieces, std::uint64_t element) {
  const int p = piece_of(pieces, element);
  return static_cast<const Element*>(pieces.data[p])[element - pieces.begin[p]];
}

/// Whether two rows' elements differ; not if one of the numbers stands for no row.
template <typename Element, typename Index>
LINKWISE_BOTH bool differs(const RawPieces& left, Index left_row, const RawPieces& right, Index right_row) {
  constexpr auto no_row = static_cast<Index>(~Index{0});
  if (left_row == no_row || right_row == no_row) return false;
  return element_of<Element>(left, left_row) != element_of<Element>(right, right_row);
}

/// What the bits of a bitmap are as bytes.
struct BytesOfBits {
  std::uint8_t set = 0, clear = 0;
};
constexpr BytesOfBits nulls_of_validity{0, 255}, numbers_of_bools{1, 0};

/// A bit of a bitmap in words of 32 bits.
LINKWISE_BOTH inline bool is_set(const std::uint32_t* bits, std::uint64_t at) {
  return (bits[at / 32] >> (at % 32) & 1) != 0;
}

}  // namespace linkwise
