// Columns in host memory: the input of a sort, and the arrays for its result.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// The input: `count` keys of a native type, and values that are moved along with them.
struct HostColumns {
  KeyType key_type = KeyType::u32;
  std::uint64_t count = 0;
  const void* keys = nullptr;
  ValueWidth value_width = ValueWidth::none;
  const void* values = nullptr;  ///< null with a width: the row numbers 0, 1, …, generated on the fly
  bool keys_pageable = false;    ///< not pinned
  bool values_pageable = false;
};

/// Where results go; a null array is not copied out. Must not overlap the input.
struct HostOutputs {
  void* keys = nullptr;
  void* values = nullptr;
  bool keys_pageable = false;
  bool values_pageable = false;
};

/// Views of the arrays that are not null, to declare what an operation reads.
std::vector<MemoryView> views_of(const HostColumns& columns);
/// The same of the outputs, to declare writes: as many rows as `columns` has, with keys of `key_bytes` each.
std::vector<MemoryView> views_of(const HostOutputs& output, const HostColumns& columns, std::uint64_t key_bytes);

}  // namespace linkwise
