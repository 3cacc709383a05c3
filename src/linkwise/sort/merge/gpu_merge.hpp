// Merges sorted runs in host memory on the GPUs, with all links busy: the second half of an out-of-core sort.
//
// Exact multisequence selection cuts the output into blocks, each of which consists of one slice of every run (join25
// §3.2 does the same for the threads of the host). Blocks are assigned to the GPUs in turn. A GPU has a few slots:
// while the slices of one block arrive in one, another is merged and a third is copied out. On the GPU the slices are
// merged by sorting them, stably, by the bits in which the block's keys differ: a few passes over device memory are
// cheap compared with the transfers to and from the host, and they take as long for a hundred runs as for two.
#pragma once

#include <span>

#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Merges `runs`, codes in pinned memory, into the output as native keys, and blocks until it is complete. Slots and
/// scratch take up to `bytes_per_gpu` bytes on each of the plan's GPUs. Null outputs are skipped. Stable in the order
/// of the runs.
/// @throws CorruptDataError if verification is on and the result is not in order, or its checksum is not `checksum`.
void gpu_merge(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::span<const Records> runs,
               const HostOutputs& output, std::uint64_t bytes_per_gpu, bool verify, std::uint64_t checksum);

}  // namespace linkwise
