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

}  // namespace linkwise
