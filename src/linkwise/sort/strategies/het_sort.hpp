// Heterogeneous sort (sort22 §5.3): the GPUs sort chunks, the CPU merges them.
//
// The input is cut into groups of one chunk per GPU. A chunk is copied in, sorted and copied back as a run; the next
// group is copied in while the previous one is copied out. At the end the CPU merges all runs (multiway_merge.hpp).
// Variants:
//   2n  two buffers per GPU: copies in and out overlap; the sort, which needs both buffers, runs between them.
//   3n  three buffers per GPU: from the third one, a chunk is copied out while the next one is copied in, piece by
//       piece into the same memory. Meanwhile the other two serve a sort. This hides the sort, but makes the chunks
//       smaller (after Stehle and Jacobsen).
//   eager merging: the runs of a group are merged while the GPUs go on with the next groups; the last group is not,
//       since nothing is left to overlap with (after Gowanlock and Karsin; sort22 §6.2 finds it slower).
// O(n) GPU work, n/g records over each link once in each direction, and a merge of all runs, bound by host memory.
#pragma once

#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Sorts the whole input into the output; stable. Blocks. @throws OutOfMemoryError.
void het_sort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t count, const HostOutputs& output,
              const SortOptions& options);

/// Makes only the runs, one for each chunk, and does not merge them.
std::vector<Records> het_sort_into_runs(Runtime& runtime, SortPlan plan, const HostIo& io, std::uint64_t count,
                                        const MemoryView& memory, const SortOptions& options);

/// Bytes of memory that each GPU needs for groups of `records` records.
std::uint64_t het_bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t records,
                                bool is_narrow);

}  // namespace linkwise
