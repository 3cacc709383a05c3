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

/// Strings in pieces: each piece's bytes, and the offsets between which each string lies, one more than strings.
struct RawStrings {
  RawPieces offsets;
  const std::uint8_t* bytes[max_gather_pieces] = {};
};

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

/// Where a string lies.
struct RawString {
  const std::uint8_t* data = nullptr;
  std::uint64_t length = 0;
};

LINKWISE_BOTH inline RawString string_of(const RawStrings& strings, std::uint64_t row) {
  const int p = piece_of(strings.offsets, row);
  const std::uint64_t* offset =
      static_cast<const std::uint64_t*>(strings.offsets.data[p]) + (row - strings.offsets.begin[p]);
  return {strings.bytes[p] + offset[0], offset[1] - offset[0]};
}

/// How many bytes two strings begin with alike.
LINKWISE_BOTH inline std::uint64_t shared_length(const RawString& one, const RawString& other) {
  const std::uint64_t shorter = one.length < other.length ? one.length : other.length;
  std::uint64_t shared = 0;
  while (shared < shorter && one.data[shared] == other.data[shared]) ++shared;
  return shared;
}

/// A string from `begin` on, as a word: its next seven bytes, zeros past its end, and how many of these it has, or
/// eight if it goes on after them. Words at begin, begin + 7, … compare as the strings from `begin` on do.
constexpr int bytes_of_word = 7;
LINKWISE_BOTH inline std::uint64_t string_word(const RawString& string, std::uint64_t begin) {
  const std::uint64_t rest = string.length > begin ? string.length - begin : 0;
  const std::uint64_t count = rest < bytes_of_word ? rest : bytes_of_word;
  std::uint64_t word = count + (rest > count ? 1 : 0);
  for (std::uint64_t i = 0; i < count; ++i)
    word |= std::uint64_t{string.data[begin + i]} << 8 * (static_cast<std::uint64_t>(bytes_of_word) - i);
  return word;
}
/// Whether a string goes on after one of its words.
LINKWISE_BOTH inline bool goes_on(std::uint64_t word) { return (word & 0xff) == bytes_of_word + 1; }

/// Whether word i of strings in order is one beside it as well, and its string goes on: see Kernels::mark_ties.
LINKWISE_BOTH inline bool is_tied(const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
                                  std::uint64_t i, std::uint64_t count) {
  if (!goes_on(words[i])) return false;
  const std::uint32_t* after = i + 1 < count ? changes + i + 1 : next;
  return changes[i] == 0 || (after != nullptr && *after == 0);
}

/// Columns of words, made of strings on the same device: word[w] is that at begin + 7 w.
struct RawStringWords {
  static constexpr int most = 8;
  std::uint64_t begin = 0;
  int count = 0;
  std::uint64_t* word[most] = {};

  [[nodiscard]] LINKWISE_BOTH std::uint64_t begin_of(int w) const {
    return begin + static_cast<std::uint64_t>(w * bytes_of_word);
  }
};

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
