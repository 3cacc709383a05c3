// Merges sorted runs of codes in host memory, as an operation on the host's own stream.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "linkwise/primitives/host/multiway_merge.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// The name of the host's rate for merging so many runs. A machine may have rates for 2, 4, 8, … of them.
std::string merge_rate_of(std::size_t runs);

/// The host's stream on which merges run, one after the other.
Stream merge_stream(Runtime& runtime);

/// Enqueues the merge of `runs` into `to`; the keys of all are codes. Stable in the order of the runs.
void enqueue_merge(Runtime& runtime, std::span<const Records> runs, const Records& to);

/// Merges `runs` into the output, decodes the keys, and blocks until it is complete. Null outputs are skipped.
void merge_into_output(Runtime& runtime, const HostIo& io, std::span<const Records> runs, const HostOutputs& output);

}  // namespace linkwise
