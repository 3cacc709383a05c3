// The out-of-core join, which is join25's path: the relations lie sorted in host memory, or are sorted into it first
// because they do not fit on the GPUs.
//
// The sorted runs of both relations are cut into pairs of equal size with disjoint keys (merge_path_partitions.hpp).
// Every GPU joins its pairs independently, in a pipeline: while one pair is copied in, another is probed (join25
// §3.3.2 has three streams that each copy and probe in turn; here one stream copies into three slots and another
// probes, so that copies do not compete). If a relation consists of several runs, a pair has a slice of each, which
// the GPU sorts together. This replaces the multiway merge of join25 §3.2 and its round trip through host memory.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// The totals. Relations that are claimed to be presorted are not sorted again, but checked during the join.
/// @throws UsageError naming the side that was claimed to be sorted and is not; OutOfMemoryError, CorruptDataError.
JoinTotals sorted_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// The rows of a join, by key, left row and right row: the GPUs find the ranges of rows that match, and the host's
/// cores write the rows (materialise.hpp). Sides of several runs are merged first. @throws as above.
std::uint64_t sorted_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// The matching ranges of the rows' values, or of row numbers if no values are given. @throws as above.
void sorted_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays);

}  // namespace linkwise
