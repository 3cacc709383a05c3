// Merging sorted runs on the host (join25 §3.2), over separate key and value arrays.
//
// libstdc++'s parallel multiway merge takes no proxy iterators, so this is our own: exact multisequence
// selection cuts the output into one equal part per thread, which merges its slices through a binary tree of
// two-way merges with cache-sized blocks between them. It needs as many comparisons as the loser tree that sort22
// §5.3 recommends, log2(k) a record, but none of its unpredictable branches. Stable: of equal keys, those of the
// earlier run come first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// A sorted run in host memory.
struct HostRun {
  const void* keys = nullptr;
  const void* values = nullptr;  ///< null where the value width is 0
  std::uint64_t count = 0;
};

/// Splits the runs at global rank `rank`: returns one position per run, adding up to `rank`, such that what
/// lies before them is ≤ what lies after them; equal keys are taken from earlier runs first.
/// O(k · key bits · log n). @throws UsageError if rank exceeds the number of records.
std::vector<std::uint64_t> multisequence_select(KeyWidth width, std::span<const HostRun> runs, std::uint64_t rank);

/// Merges all runs into `keys` and `values`, in `parts` parallel parts (0: one per core, if that pays).
void multiway_merge(RecordType type, std::span<const HostRun> runs, void* keys, void* values, int parts = 0);

}  // namespace linkwise
