// Turns views of memory into what kernels and operations' declarations take.
#pragma once

#include <initializer_list>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// Null for an empty view.
template <typename Type>
Type* pointer(const MemoryView& view) {
  return view.bytes == 0 ? nullptr : reinterpret_cast<Type*>(view.data);
}

inline std::vector<MemoryView> without_empty(std::initializer_list<MemoryView> views) {
  std::vector<MemoryView> present;
  for (const MemoryView& view : views)
    if (view.bytes > 0) present.push_back(view);
  return present;
}

}  // namespace linkwise
