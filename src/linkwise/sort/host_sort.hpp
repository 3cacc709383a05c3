// Sorting what lies in host memory: in to the GPUs, sorted there, and out.
//
// What fits into the GPUs crosses each link once each way. What does not is sorted in chunksets, each of
// which becomes a run in host memory, and the runs are merged there (join25 §3.1.3, §3.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// The input: `count` keys of a native type, and values that follow them.
struct HostColumns {
  KeyType key_type = KeyType::u32;
  std::uint64_t count = 0;
  const void* keys = nullptr;
  ValueWidth value_width = ValueWidth::none;
  const void* values = nullptr;  ///< null with a width: the row numbers 0, 1, …, made on the GPUs
  bool keys_pageable = false;    ///< not page-locked
  bool values_pageable = false;
};

/// Where results go; a null array is not brought back. Never the same memory as the input.
struct HostOutputs {
  void* keys = nullptr;
  void* values = nullptr;
  bool keys_pageable = false;
  bool values_pageable = false;
};

struct SortOptions {
  bool descending = false;  ///< equal keys keep their order all the same
  bool verify = true;       ///< order and multiset checksum, on the GPUs
  bool as_joined = false;   ///< floats become those by which joins compare: 0.0 for -0.0, and one NaN
};

struct SortReport {
  double seconds = 0;  ///< from the first operation to the last, on the runtime's clock
  bool verified = false;
  std::vector<PhaseTime> phases;
  std::vector<TimelineEntry> timeline;
};

/// Of the sort that the runtime has run since its timeline was cleared. Synchronises.
SortReport report_of(Runtime& runtime, const SortOptions& options);

/// The records that fit into the plan's GPUs at once. @throws OutOfMemoryError if not even a few do.
std::uint64_t records_that_fit(Runtime& runtime, const SortPlan& plan, RecordType type);

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
