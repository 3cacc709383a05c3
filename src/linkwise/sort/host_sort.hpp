// Sorting what lies in host memory: in to the GPUs, sorted there, and out.
//
// What fits into the GPUs crosses each link once each way. What does not is sorted in chunksets, each of
// which becomes a run in host memory, and the runs are merged there (join25 §3.1.3, §3.2).
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// The records that fit into the plan's GPUs at once. @throws OutOfMemoryError if not even a few do.
std::uint64_t records_that_fit(Runtime& runtime, const SortPlan& plan, RecordType type, bool is_narrow = true);

/// Sorts; stable. @throws UsageError for a plan that this machine cannot run, OutOfMemoryError,
/// CorruptDataError if verification fails. The input is never changed.
SortReport sort_host(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                     const SortOptions& options);

/// The same as a step of something larger: the runtime's timeline goes on.
void sort_columns(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                  const SortOptions& options);
/// The sorted runs of an out-of-core sort, without merging them: codes, and values, in `memory`, which is page-locked
/// and has room for all records. One run, if all fits. Blocks until they are there. @throws as sort_host.
std::vector<Records> sort_into_runs(Runtime& runtime, const SortPlan& plan, const HostColumns& input,
                                    const MemoryView& memory, const SortOptions& options);

}  // namespace linkwise
