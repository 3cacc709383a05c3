// Cutting two sorted relations in host memory into pairs that can be joined independently (join25 §3.3.1).
//
// Cross diagonals of the merge path give parts of equal size, of both relations together; here of any number of sorted
// runs on each side, so runs need not be merged before they are joined. Merging may cut through the rows of a key,
// joining may not: so a key whose rows lie on both sides of a cut is taken out, with all its rows, and its ranges are
// kept (the paper's boundary validation; its figure 7). A key that alone is longer than a part is taken out by the
// cuts that fall into it, which leaves the parts in between empty (its figure 8).
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

/// Of each run of both relations, the rows that belong to it.
struct PairOfRanges {
  std::vector<RunRange> left, right;
  [[nodiscard]] std::uint64_t rows() const { return rows_in(left) + rows_in(right); }
};

struct MergePathPartitions {
  std::vector<PairOfRanges> parts;      ///< by rising keys; none has more rows than an equal share, rounded up
  std::vector<PairOfRanges> taken_out;  ///< each all rows of one key; by rising keys
};

/// Whether what a side, which is one run, puts into the parts and the keys that were taken out is in order from one to
/// the next: with parts that are in order by themselves, the whole run is.
bool is_in_order(const MergePathPartitions& pairs, const SortedRuns& side, bool is_left);

/// Cuts into that many parts. The codes of the two relations' keys have one width.
MergePathPartitions cut_sorted(const SortedRuns& left, const SortedRuns& right, std::size_t parts);

}  // namespace linkwise
