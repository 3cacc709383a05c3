// The join of host columns on the GPUs: by the plan's path.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// Whether an in-core join fits in the memory of the plan's GPUs, assuming evenly spread keys.
bool join_fits(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, bool wants_rows);

/// @throws UsageError for a plan that this machine cannot run, OutOfMemoryError, CorruptDataError if verification
/// fails. Inputs are never changed.
JoinTotals join_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// Writes the rows, ordered by key, left row and right row; for a semi or anti join the left rows, by key and row.
/// Returns the number of rows. @throws as above.
std::uint64_t join_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// The matches of an inner join as ranges: for each key, the values of its left and of its right rows. Values are
/// integers of 4 or 8 bytes, or row numbers if none are given. However many pairs there are, the ranges have no more
/// rows than both sides. Needs the path `sorted` or `pairwise`. @throws as above.
void join_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays);

}  // namespace linkwise
