// Columns in host memory: what a sort reads, and where its result goes.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// The input: `count` keys of a native type, and values that follow them.
struct HostColumns {
  KeyType key_type = KeyType::u32;
  std::uint64_t count = 0;
  const void* keys = nullptr;
  ValueWidth value_width = ValueWidth::none;
  const void* values = nullptr;  ///< null with a width: the row numbers 0, 1, …, made on the GPUs
  bool keys_pageable = false;    ///< not page-locked
  bool values_pageable = false;
};

/// Where results go; a null array is not brought back. Never the same memory as the input.
struct HostOutputs {
  void* keys = nullptr;
  void* values = nullptr;
  bool keys_pageable = false;
  bool values_pageable = false;
};

/// What is there of them, for those who have to say what they touch.
std::vector<MemoryView> views_of(const HostColumns& columns);
/// Of as many rows as the columns have, with keys of so many bytes.
std::vector<MemoryView> views_of(const HostOutputs& output, const HostColumns& columns, std::uint64_t key_bytes);

}  // namespace linkwise
