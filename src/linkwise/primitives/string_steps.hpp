// Strings that lie in pieces on several devices, as words and hashes, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/pieces.hpp"

namespace linkwise {

/// Strings in pieces: each piece's bytes, and the offsets between which each string lies, one more than strings.
struct RawStrings {
  RawPieces offsets;
  const std::uint8_t* bytes[max_gather_pieces] = {};
};

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

/// Bytes, at most seven, as the upper ones of a word, the first one uppermost; the others are 0.
LINKWISE_BOTH inline std::uint64_t upper_bytes(const std::uint8_t* bytes, std::uint64_t count) {
  if (count == 0) return 0;
#ifdef __CUDA_ARCH__
  // Aligned words in each of which some of the bytes lie.
  const std::uint64_t before = reinterpret_cast<std::uintptr_t>(bytes) % 4, end = before + count;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bytes - before);
  const std::uint32_t first = words[0], second = end > 4 ? words[1] : 0, third = end > 8 ? words[2] : 0;
  const unsigned shift = 8 * static_cast<unsigned>(before);
  const std::uint64_t upper = __byte_perm(__funnelshift_r(first, second, shift), 0, 0x0123),
                      lower = __byte_perm(__funnelshift_r(second, third, shift), 0, 0x0123);
  return (upper << 32 | lower) & (~std::uint64_t{0} << 8 * (8 - count));
#else
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; i < count; ++i) word |= std::uint64_t{bytes[i]} << 8 * (7 - i);
  return word;
#endif
}

/// A string from `begin` on, as a word: its next seven bytes, zeros past its end, and how many of these it has, or
/// eight if it goes on after them. Words at begin, begin + 7, … compare as the strings from `begin` on do.
constexpr int bytes_of_word = 7;
LINKWISE_BOTH inline std::uint64_t string_word(const RawString& string, std::uint64_t begin) {
  const std::uint64_t rest = string.length > begin ? string.length - begin : 0;
  const std::uint64_t count = rest < bytes_of_word ? rest : bytes_of_word;
  return upper_bytes(string.data + begin, count) | (count + (rest > count ? 1 : 0));
}
/// Whether a string goes on after one of its words.
LINKWISE_BOTH inline bool goes_on(std::uint64_t word) { return (word & 0xff) == bytes_of_word + 1; }

/// The hash of a row up to a string, given that of the columns before it: see row_hash_with.
LINKWISE_BOTH inline std::uint64_t string_hash_with(std::uint64_t hash, const RawString& string) {
  std::uint64_t begin = 0, word = 0;
  do {
    word = string_word(string, begin);
    hash = row_hash_with(hash, word);
    begin += bytes_of_word;
  } while (goes_on(word));
  return hash;
}

LINKWISE_BOTH inline bool are_equal(const RawString& one, const RawString& other) {
  if (one.length != other.length) return false;
  std::uint64_t begin = 0;
  while (begin < one.length && string_word(one, begin) == string_word(other, begin)) begin += bytes_of_word;
  return begin >= one.length;
}

/// Whether two rows' strings differ; not if one of the numbers stands for no row.
template <typename Index>
LINKWISE_BOTH bool strings_differ(const RawStrings& left, Index left_row, const RawStrings& right, Index right_row) {
  constexpr auto no_row = static_cast<Index>(~Index{0});
  if (left_row == no_row || right_row == no_row) return false;
  return !are_equal(string_of(left, left_row), string_of(right, right_row));
}

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

}  // namespace linkwise
