// The in-core join: both relations are exchanged by common splitters while they arrive, then sorted and joined on the
// GPUs that received them. Nothing goes back to the host between the phases.
//
// For totals, only the build side must be resident. The probe side streams through in batches, each exchanged, sorted
// and probed while the next one arrives, so only the work on the last batch adds to the transfer time; and the probe
// side need not fit in GPU memory.
// Rows are produced in key order, so both sides must be resident: the longer one comes first and is sorted while the
// other arrives. Each GPU then counts its rows of the result and sends them out window by window.
#pragma once

#include <cstdint>

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// The totals. @throws UsageError, OutOfMemoryError, CorruptDataError.
JoinTotals in_core_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// Writes the rows, ordered by key, left row and right row; for a semi or anti join the left rows, by key and row.
/// Returns the number of rows. @throws as above.
std::uint64_t in_core_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// Bytes that each GPU needs at most, assuming evenly spread keys.
std::uint64_t in_core_bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                    bool wants_rows);

}  // namespace linkwise
