// The input and output of a join, and the plan for executing it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "linkwise/join/host_merge_join.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Two relations in host memory, with keys of one type. Floats match as numbers: -0.0 equals 0.0, and NaN equals NaN;
/// the result has them as 0.0 and one NaN. Values are what the result contains of a row, or what is summed.
struct JoinInput {
  HostColumns left, right;
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< for sums
  bool left_presorted = false, right_presorted = false;          ///< claims, checked where they are relied on
  bool verify = true;  ///< order and multiset checksum of both sides, on the GPUs
  /// The number of matching pairs, or of matching ranges, that an estimate assumes. By default one for each row of
  /// the longer side; for an anti join none, so that its result is as long as possible.
  std::optional<std::uint64_t> expected_matches;
};

/// The number of rows of the result and, over its matches, the sums of values of 4 or 8 bytes, modulo 2^64.
struct JoinTotals {
  std::uint64_t rows = 0;
  std::uint64_t left_sum = 0, right_sum = 0;
};

/// Where the rows of the result go; null arrays are not written. If a side has no row, its value has all bits set.
/// Keys are the left side's.
struct JoinOutputs {
  void* keys = nullptr;
  void* left_values = nullptr;
  void* right_values = nullptr;
  bool pageable = false;
};
/// Views of the arrays that are not null, with `rows` rows each.
std::vector<MemoryView> views_of(const JoinOutputs& outputs, const JoinInput& input, std::uint64_t rows);
/// Called once, with the number of rows.
using MakeOutputs = std::function<JoinOutputs(std::uint64_t rows)>;

/// Called once, with the sizes of the ranges.
using MakeRangeArrays = std::function<RangeArrays(const RangeSizes& sizes)>;

std::vector<MemoryView> views_of(const RangeArrays& arrays, const RangeSizes& sizes);

/// What a join counts: matching pairs, matched rows of each side, and the sums of values over the pairs.
struct JoinCounts {
  std::uint64_t pairs = 0, left_matched = 0, right_matched = 0, left_sum = 0, right_sum = 0;
  JoinCounts& operator+=(const JoinCounts& other);
};
/// The counts that an estimate assumes; a side never has more matched rows than rows.
JoinCounts expected_counts(const JoinInput& input);
/// The totals that an estimate assumes for one of `probes` equal probes.
MatchTotals expected_totals(const JoinCounts& counts, bool left_probes, std::uint64_t probes);
/// The totals of a join of this kind. Matched rows matter only on the sides that the kind depends on.
JoinTotals totals_of(JoinKind kind, const JoinCounts& counts, std::uint64_t left_rows, std::uint64_t right_rows);

/// The counts from a forward probe and, where the kind depends on the matched rows of both sides, a backward probe.
JoinCounts counts_of(bool left_probes, const MatchTotals& forward, const MatchTotals& backward);

/// What a left row adds to the rows of the result.
Emission emission_of_left(JoinKind kind);
/// Whether right rows that match nothing are in the result.
bool right_emits(JoinKind kind);
/// Whether the left side probes when totals are computed: the side whose matched rows are needed, or the longer one.
bool left_probes(const JoinInput& input);
/// Whether both sides have values that can be summed.
bool sums_values(const JoinInput& input);

enum class JoinPath {
  in_core,  ///< both sides exchanged between the GPUs and joined there: in_core_join.hpp
  sorted,   ///< both sides sorted in host memory, and joined pair by pair: sorted_join.hpp
  // Rui et al.'s joins, which no planner chooses (join25 §4.1.4): GPUs exchange no data.
  pairwise,     ///< as `sorted`, but runs are sorted and merged two by two on the GPUs: pairwise_merge.hpp
  hybrid_radix  ///< partitioned by the host, and joined bucket by bucket: hybrid_radix_join.hpp
};
/// Whether the path exists only as a baseline for measurements.
inline bool is_baseline(JoinPath path) { return path == JoinPath::pairwise || path == JoinPath::hybrid_radix; }

struct JoinPlan {
  JoinPath path = JoinPath::in_core;
  SortPlan sort;                         ///< the GPUs, pieces, samples and paths of the join
  int batches = 8;                       ///< of the probe side when only totals are wanted
  bool merges_runs = false;              ///< path `sorted`: merges each side into one run first, as in join25 §3.2
  bool searches_each_key = false;        ///< how the ranges of a pair are found: RangeSearch::each_key
  std::uint64_t pair_bytes = 256 << 20;  ///< most bytes of keys and values in a pair, which a GPU joins at once
  std::uint64_t window_rows = 1 << 21;   ///< result rows that a GPU makes at once

  [[nodiscard]] std::string to_string() const;
};

/// Calls visit(name, member) for every field except `sort`.
template <typename Visit>
void visit_fields(const JoinPlan*, const Visit& visit) {
  visit("path", &JoinPlan::path);
  visit("batches", &JoinPlan::batches);
  visit("merges_runs", &JoinPlan::merges_runs);
  visit("searches_each_key", &JoinPlan::searches_each_key);
  visit("pair_bytes", &JoinPlan::pair_bytes);
  visit("window_rows", &JoinPlan::window_rows);
}

/// @throws UsageError if the keys of the two sides differ in type, or the machine lacks the plan's GPUs.
void check_join(const Machine& machine, const JoinPlan& plan, KeyType left, KeyType right);

/// Samples of each side for choosing splitters: fewer than for a sort, since the host processes them.
std::uint64_t join_samples(const JoinPlan& plan);

}  // namespace linkwise
