// The hashes of records in host memory, with the widest vectors that the processor has.
#pragma once

#include <cstdint>

#include "linkwise/primitives/host/scatter.hpp"
#include "linkwise/primitives/host/vectors.hpp"

namespace linkwise {

template <typename Key, typename Value>
struct RecordHashes {
  LINKWISE_VECTORS static std::uint64_t sum(HostRecords<const Key, const Value> records, std::uint64_t count) {
    std::uint64_t all = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      if constexpr (has_value<Value>) all += record_hash(records.keys[i], records.values[i]);
      else all += record_hash(records.keys[i], NoValue{});
    }
    return all;
  }
};

}  // namespace linkwise
