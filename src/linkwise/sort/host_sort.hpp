// Sorts columns in host memory: copies them to the GPUs, sorts them there, and copies the result back.
//
// Data that fits into the GPUs crosses each link once in each direction. Larger data is sorted in chunksets, each of
// which becomes a run in host memory; then the runs are merged (join25 §3.1.3, §3.2).
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// How many records fit into the plan's GPUs at once. @throws OutOfMemoryError if hardly any do.
std::uint64_t records_that_fit(Runtime& runtime, const SortPlan& plan, RecordType type, bool is_narrow = true);

/// Sorts; stable. @throws UsageError for a plan that this machine cannot run, OutOfMemoryError,
/// CorruptDataError if verification fails. The input is never changed.
SortReport sort_host(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                     const SortOptions& options);

/// The same as a step of a larger operation: does not clear the runtime's timeline.
void sort_columns(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                  const SortOptions& options);
/// Makes the sorted runs of an out-of-core sort without merging them: codes and values in `memory`, which is pinned
/// and has room for all records. If all records fit at once, that is one run, or with het one for each GPU. Blocks
/// until the runs are complete. @throws as sort_host.
std::vector<Records> sort_into_runs(Runtime& runtime, const SortPlan& plan, const HostColumns& input,
                                    const MemoryView& memory, const SortOptions& options);

}  // namespace linkwise
