// The join of relations that the GPUs hold: both are exchanged by common splitters while they arrive, sorted where they
// then lie, and joined on the spot. Nothing goes back to the host between the phases.
//
// Totals need one side only: the other one passes by it in batches, each of which is exchanged, sorted and probed while
// the next one arrives, so what is added to the wire time is the work on the last batch; and it need not fit.
// Rows are wanted in the order of keys, so both sides must be there: the longer one comes first and is sorted while the
// other arrives. Then each GPU knows how many rows of the result are its own, and sends them out window by window.
#pragma once

#include <cstdint>

#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// The totals. @throws UsageError, OutOfMemoryError, CorruptDataError.
JoinTotals in_core_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

/// The rows, by key, left row and right row; of a semi or anti join, which gives left rows, by key and row. Returns how
/// many there are. @throws as above.
std::uint64_t in_core_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs);

/// Bytes that each GPU needs at most, keys being spread as chance would have it.
std::uint64_t in_core_bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                    bool wants_rows);

}  // namespace linkwise
