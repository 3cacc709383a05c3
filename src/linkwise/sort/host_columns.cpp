#include "linkwise/sort/host_columns.hpp"

namespace linkwise {
namespace {

std::vector<MemoryView> views_of(const void* keys, std::uint64_t key_bytes, bool keys_pageable, const void* values,
                                 std::uint64_t value_bytes, bool values_pageable) {
  std::vector<MemoryView> views;
  if (keys != nullptr) views.push_back(host_view(keys, 0, key_bytes, keys_pageable));
  if (values != nullptr) views.push_back(host_view(values, 0, value_bytes, values_pageable));
  return views;
}

}  // namespace

std::vector<MemoryView> views_of(const HostColumns& columns) {
  const auto key_bytes = static_cast<std::uint64_t>(native_bytes(columns.key_type));
  return views_of(columns.keys, columns.count * key_bytes, columns.keys_pageable, columns.values,
                  columns.count * static_cast<std::uint64_t>(columns.value_width), columns.values_pageable);
}

std::vector<MemoryView> views_of(const HostOutputs& output, const HostColumns& columns, std::uint64_t key_bytes) {
  return views_of(output.keys, columns.count * key_bytes, output.keys_pageable, output.values,
                  columns.count * static_cast<std::uint64_t>(columns.value_width), output.values_pageable);
}

}  // namespace linkwise
