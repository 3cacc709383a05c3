// What a join is asked for, and how it is to be done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "linkwise/join/host_merge_join.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Two relations in host memory. Their keys are of one type, and floats match as numbers: -0.0 is 0.0, and NaN is NaN;
/// where the result shows them, they are 0.0 and one NaN. Values are what the result shows of a row, or is summed.
struct JoinInput {
  HostColumns left, right;
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< where they are summed
  bool left_presorted = false, right_presorted = false;          ///< claimed, and checked where it is used
  bool verify = true;  ///< order and multiset checksum of both sides, on the GPUs
  /// The pairs of equal keys, or ranges of them, that an estimate takes. Unless said, one for each row of the longer
  /// side; of an anti join none, so that its result is as long as it can be.
  std::optional<std::uint64_t> expected_matches;
};

/// The number of rows of the result and, over its matches, the sums of values of 4 or 8 bytes, modulo 2^64.
struct JoinTotals {
  std::uint64_t rows = 0;
  std::uint64_t left_sum = 0, right_sum = 0;
};

/// Where the rows of the result go; a null array is not brought back. Of a side that has no row, the value has all bits
/// set. Keys are the left side's.
struct JoinOutputs {
  void* keys = nullptr;
  void* left_values = nullptr;
  void* right_values = nullptr;
  bool pageable = false;
};
/// What is there of them, of so many rows.
std::vector<MemoryView> views_of(const JoinOutputs& outputs, const JoinInput& input, std::uint64_t rows);
/// Called once, with the number of rows.
using MakeOutputs = std::function<JoinOutputs(std::uint64_t rows)>;

/// Called once, with how many there are.
using MakeRangeArrays = std::function<RangeArrays(const RangeSizes& sizes)>;

std::vector<MemoryView> views_of(const RangeArrays& arrays, const RangeSizes& sizes);

/// What joining finds: pairs of equal keys, rows that have one, and the sums of values over the pairs.
struct JoinCounts {
  std::uint64_t pairs = 0, left_matched = 0, right_matched = 0, left_sum = 0, right_sum = 0;
  JoinCounts& operator+=(const JoinCounts& other);
};
/// What an estimate takes a join to find: never more matched rows than there are.
JoinCounts expected_counts(const JoinInput& input);
/// Of one of so many probes of a side.
MatchTotals expected_totals(const JoinCounts& counts, bool left_probes, std::uint64_t probes);
/// Of a kind of join. Matched rows count only on the sides that the kind looks at.
JoinTotals totals_of(JoinKind kind, const JoinCounts& counts, std::uint64_t left_rows, std::uint64_t right_rows);

/// Of probes one way and, where the kind looks at matched rows of both sides, back.
JoinCounts counts_of(bool left_probes, const MatchTotals& forward, const MatchTotals& backward);

/// What a left row adds to the rows of the result.
Emission emission_of_left(JoinKind kind);
/// Whether right rows that match nothing are in the result.
bool right_emits(JoinKind kind);
/// Whether the left side probes, where totals are wanted: the side whose matched rows count, or the longer one.
bool left_probes(const JoinInput& input);
/// Whether both sides have values that can be summed.
bool sums_values(const JoinInput& input);

enum class JoinPath {
  in_core,  ///< both sides on the GPUs, exchanged and joined where they lie: in_core_join.hpp
  sorted,   ///< both sides sorted in host memory, and joined pair by pair: sorted_join.hpp
  // Rui et al.'s, which no planner chooses (join25 §4.1.4): GPUs share nothing.
  pairwise,     ///< likewise; chunks are sorted, and their runs merged two by two, on the GPUs: pairwise_merge.hpp
  hybrid_radix  ///< partitioned by the host, and joined bucket by bucket: hybrid_radix_join.hpp
};
/// Whether it is there to be measured against.
inline bool is_baseline(JoinPath path) { return path == JoinPath::pairwise || path == JoinPath::hybrid_radix; }

struct JoinPlan {
  JoinPath path = JoinPath::in_core;
  SortPlan sort;                         ///< its GPUs, pieces, samples and paths
  int batches = 8;                       ///< in which the probing side passes when only totals are asked for
  bool merges_runs = false;              ///< path `sorted`: each side becomes one run first, as in join25 §3.2
  bool searches_each_key = false;        ///< of a pair, for its ranges: RangeSearch::each_key
  std::uint64_t pair_bytes = 256 << 20;  ///< of the keys and values that a GPU then joins at once, at most
  std::uint64_t window_rows = 1 << 21;   ///< of the result that a GPU makes at once

  [[nodiscard]] std::string to_string() const;
};

/// visit(name, member) for every field of its own.
template <typename Visit>
void visit_fields(const JoinPlan*, const Visit& visit) {
  visit("path", &JoinPlan::path);
  visit("batches", &JoinPlan::batches);
  visit("merges_runs", &JoinPlan::merges_runs);
  visit("searches_each_key", &JoinPlan::searches_each_key);
  visit("pair_bytes", &JoinPlan::pair_bytes);
  visit("window_rows", &JoinPlan::window_rows);
}

/// @throws UsageError if the keys of the two sides differ in type, or the machine has not the plan's GPUs.
void check_join(const Machine& machine, const JoinPlan& plan, KeyType left, KeyType right);

/// Of each side, to cut by: fewer than a sort takes, since the host looks at them.
std::uint64_t join_samples(const JoinPlan& plan);

}  // namespace linkwise
