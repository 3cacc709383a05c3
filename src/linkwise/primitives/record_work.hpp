// What operations on records declare: the memory that they touch, and which rates price their sorts.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Keys and values, without empty views.
inline std::vector<MemoryView> views_of(std::initializer_list<const Records*> all) {
  std::vector<MemoryView> views;
  for (const Records* records : all) {
    if (records->keys.bytes > 0) views.push_back(records->keys);
    if (records->values.bytes > 0) views.push_back(records->values);
  }
  return views;
}

inline std::string rate_of_sort(RecordType type) {
  return type.value == ValueWidth::none ? "sort" : "sort with values";
}

/// Of an MSD radix sort, or of a share of its work.
inline Work work_of_msd_sort(RecordType type, std::uint64_t count, double share = 1) {
  Work work{"sort with levels", count, static_cast<double>(type.bytes()), share};
  work.other_rate = rate_of_sort(type);
  work.other_passes = static_cast<double>(type.key_bytes());
  return work;
}

}  // namespace linkwise
