// Columns of strings, as views of memory and as what kernels take.
#pragma once

#include <span>

#include "linkwise/primitives/string_steps.hpp"
#include "linkwise/primitives/views.hpp"

namespace linkwise {

/// A piece of a column of strings: 64-bit offsets into its bytes, one more than there are strings.
struct StringPiece {
  MemoryView offsets;
  MemoryView bytes;
};

inline RawStrings raw_strings(std::span<const StringPiece> pieces, const char* operation) {
  RawStrings raw;
  for (const StringPiece& piece : pieces) {
    require(piece.offsets.bytes >= 8 && piece.offsets.bytes % 8 == 0, operation, "an offset more than strings");
    raw.bytes[raw.offsets.count] = reinterpret_cast<const std::uint8_t*>(piece.bytes.data);
    add_piece(raw.offsets, piece.offsets.data, piece.offsets.bytes / 8 - 1, operation);
  }
  return raw;
}

}  // namespace linkwise
