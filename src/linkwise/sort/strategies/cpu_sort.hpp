// Sorts without GPUs, on the host's cores: the baseline for the other strategies, the sort of small inputs, and the
// one that actually runs on a machine without GPUs.
#pragma once

#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// Like sort_host, but runs immediately in the calling thread, without a runtime. @throws CorruptDataError,
/// OutOfMemoryError.
void sort_on_cpu(const HostColumns& input, const HostOutputs& output, const SortOptions& options,
                 CpuAlgorithm algorithm);

/// The same as an operation on a host stream of the runtime, which prices it if simulated. Blocks until it is done.
void cpu_sort(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
              const SortOptions& options);

}  // namespace linkwise
