// The join of host columns on the GPUs: by the plan's path.
#pragma once

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// Whether the plan's GPUs have the memory for it, keys being spread as chance would have it.
bool join_fits(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, bool wants_rows);

/// @throws UsageError for a plan that this machine cannot run, OutOfMemoryError, CorruptDataError if verification
/// fails. Inputs are never changed.
JoinTotals join_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// The rows, by key, left row and right row; of a semi or anti join, which gives left rows, by key and row. Returns how
/// many there are. @throws as above.
std::uint64_t join_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// What matches in an inner join, as ranges of the values of both sides: integers of 4 or 8 bytes, row numbers if none
/// are given. However many pairs there are, no more than both sides have rows. The path is `sorted`. @throws as above.
void join_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays);

}  // namespace linkwise
