// Sorting without GPUs, on the cores of the host: what the others are compared with, what small inputs take, and what
// a machine without GPUs really does.
#pragma once

#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// As sort_host, at once and in the calling thread. @throws CorruptDataError, OutOfMemoryError.
void sort_on_cpu(const HostColumns& input, const HostOutputs& output, const SortOptions& options,
                 CpuAlgorithm algorithm);

/// The same as one operation of the runtime's host, which prices it where it is simulated. Blocks until it is done.
void cpu_sort(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
              const SortOptions& options);

}  // namespace linkwise
