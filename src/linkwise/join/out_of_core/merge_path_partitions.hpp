// Cutting two sorted relations in host memory into pairs that can be joined independently (join25 §3.3.1).
//
// Cross diagonals of the merge path give parts with equal numbers of rows of both relations together. Here each side
// may consist of several sorted runs, which need not be merged before the join. A merge may cut through the rows of a
// key, a join may not: a key with rows on both sides of a cut is taken out with all its rows, and its ranges are kept
// separately (the paper's boundary validation; its figure 7). A key with more rows than a part is taken out by the
// first of the cuts that fall into it, and the parts between these cuts stay empty (its figure 8).
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {

/// A relation as sorted runs: of native keys, or of their codes, which are the native keys of `code_type`.
struct SortedRuns {
  KeyType key_type = KeyType::u64;
  std::vector<HostRun> runs;
};

/// Rows [begin, end) of a run.
struct RunRange {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
};
std::uint64_t rows_in(const std::vector<RunRange>& ranges);

/// A pair: for each run of both relations, the rows that belong to it.
struct PairOfRanges {
  std::vector<RunRange> left, right;
  [[nodiscard]] std::uint64_t rows() const { return rows_in(left) + rows_in(right); }
};

struct MergePathPartitions {
  std::vector<PairOfRanges> parts;      ///< ascending by key; none has more rows than an equal share, rounded up
  std::vector<PairOfRanges> taken_out;  ///< each has all rows of one key; ascending by key
};

/// Whether a side that is a single run is in order across the boundaries of the parts and within the keys that were
/// taken out. If each part is in order by itself too, the whole run is.
bool is_in_order(const MergePathPartitions& pairs, const SortedRuns& side, bool is_left);

/// Cuts the relations into this many parts. The key codes of both must have the same width.
MergePathPartitions cut_sorted(const SortedRuns& left, const SortedRuns& right, std::size_t parts);

}  // namespace linkwise
