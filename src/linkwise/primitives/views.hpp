// Turns views of memory into what kernels and operations' declarations take.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "linkwise/device/runtime.hpp"
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

}  // namespace linkwise
