// The join of relations that lie sorted in host memory, or are sorted there first because the GPUs cannot hold them:
// join25's path.
//
// The sorted runs of both relations are cut into pairs of equal size whose keys are disjoint (subpartitions.hpp). Every
// GPU joins its pairs independently, in a pipeline: while one pair's keys come in, another is probed (join25 §3.3.2 has
// three streams that each copy and probe in turn; here one stream copies into three slots and another probes, so that
// copies do not compete). Where a relation is of several runs, a pair has a slice of each, which the GPU sorts
// together: the multiway merge of join25 §3.2 and the round trip through host memory that it costs become a part of the
// join.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// The totals. Relations that are claimed to be sorted are not sorted, and checked while they are joined.
/// @throws UsageError naming the side that was claimed to be sorted and is not; OutOfMemoryError, CorruptDataError.
JoinTotals sorted_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// The rows of a join, by key, left row and right row: the GPUs find the ranges of rows that match, and the host's
/// cores write the rows (materialise.hpp). Sides of several runs are merged first. @throws as above.
std::uint64_t sorted_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// The ranges themselves, of the rows' values, which are their numbers if none are given. @throws as above.
void sorted_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays);

}  // namespace linkwise
