// The rows of a join from the ranges that its sorted left rows match, written by the host's cores (join25 §3.3.2).
//
// The result is cut into equal parts for the cores, however unevenly the left rows share it. join25 writes its rows in
// any order; here they are in the order of the left rows, and of the right rows that each of them matches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/subpartitions.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {

/// Left rows that match among some right rows; both are positions in the sorted relations.
struct MatchedRows {
  RunRange left;
  std::uint64_t right_begin = 0;           ///< what `first` counts from
  const std::uint32_t* first = nullptr;    ///< of each left row, as `probe` says it; null: each matches from the begin
  const std::uint32_t* emitted = nullptr;  ///< and how many rows it adds; null: `each`
  std::uint64_t each = 0;
  bool each_matches = true;  ///< otherwise those rows have nothing on the right
};

/// A sorted relation, and how wide its columns are. Without values, the rows' numbers stand for them.
struct SortedColumns {
  HostRun rows;
  std::uint64_t key_bytes = 0, value_bytes = 0;
};

/// How many rows all of them add. @throws UsageError if they are more than 2^63 - 1.
std::uint64_t count_rows(std::span<const MatchedRows> matched);
/// Writes them. Of semi and anti joins, right values are not wanted.
void materialise(std::span<const MatchedRows> matched, const SortedColumns& left, const SortedColumns& right,
                 const JoinOutputs& outputs);

}  // namespace linkwise
