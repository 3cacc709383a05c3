// Turns views of memory into what kernels and operations' declarations take.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/pieces.hpp"
#include "linkwise/primitives/require.hpp"

namespace linkwise {

/// Null for an empty view. @throws ProgramError if the memory is not aligned as GPUs need it; most CPUs do not mind.
template <typename Type>
Type* pointer(const MemoryView& view) {
  if (view.bytes == 0) return nullptr;
  if constexpr (!std::is_void_v<Type>)
    require(reinterpret_cast<std::uintptr_t>(view.data) % alignof(Type) == 0, "a view", "memory that is aligned");
  return reinterpret_cast<Type*>(view.data);
}

inline std::vector<MemoryView> without_empty(std::initializer_list<MemoryView> views) {
  std::vector<MemoryView> present;
  for (const MemoryView& view : views)
    if (view.bytes > 0) present.push_back(view);
  return present;
}

/// Leaves out empty pieces.
inline void add_piece(RawPieces& raw, const void* data, std::uint64_t elements, const char* operation) {
  if (elements == 0) return;
  require(raw.count < max_gather_pieces, operation, "too many pieces");
  raw.data[raw.count] = data;
  raw.begin[raw.count + 1] = raw.begin[raw.count] + elements;
  ++raw.count;
}
inline RawPieces raw_pieces(std::span<const MemoryView> pieces, std::uint64_t element_bytes, const char* operation) {
  RawPieces raw;
  for (const MemoryView& piece : pieces) {
    require(piece.bytes % element_bytes == 0, operation, "a piece does not hold whole elements");
    add_piece(raw, piece.data, piece.bytes / element_bytes, operation);
  }
  return raw;
}

}  // namespace linkwise
