// What the matched keys of two sorted relations stand for, written by the host's cores (join25 §3.3.2): the rows of the
// join, or the rows of each key.
//
// The result is cut into equal parts for the cores, however unevenly the keys share it. join25 writes its rows in any
// order; here they come by key, and within a key by left row and then by right row. Rows that match nothing lie between
// the matched keys, on either side.
#pragma once

#include <cstdint>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/matched_keys.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {

/// A sorted relation, and how wide its values are. Without values, the rows' numbers stand for them.
struct SortedColumns {
  KeyType key_type = KeyType::u64;
  HostRun rows;
  std::uint64_t value_bytes = 0;
};

/// Writes the rows of a join, and returns how many there are. @throws UsageError if they are more than 2^63 - 1.
std::uint64_t write_rows(KeyBlocks blocks, JoinKind kind, const SortedColumns& left, const SortedColumns& right,
                         const MakeOutputs& outputs);

/// Writes the rows of every matched key, which are the values of the relations: integers of 4 or 8 bytes.
void write_ranges(const KeyBlocks& blocks, const SortedColumns& left, const SortedColumns& right,
                  const MakeRangeArrays& arrays);

}  // namespace linkwise
