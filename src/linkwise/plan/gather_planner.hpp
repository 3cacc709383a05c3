// Prices gathering rows of a table's columns, on GPUs and on the host's cores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"

namespace linkwise {

/// Columns without data, each of one chunk; for a column of strings, `width` is their mean length.
struct GatherWorkload {
  std::vector<ChunkedColumn> columns;
  std::uint64_t rows = 0;  ///< number of rows to gather
  int row_bytes = 4;       ///< width of a row number

  void add(ChunkedColumn::Layout layout, int width, std::uint64_t source_rows, bool pageable);
};

struct GatherPrice {
  double on_gpus = 0, on_cores = 0;  ///< seconds; infinite if memory or peer access is missing
};

/// Prices the GPUs by running the gather in estimate mode, and the cores by the host's gather rate.
GatherPrice price_gather(const Machine& machine, const GatherWorkload& workload, std::span<const int> gpus,
                         std::uint64_t memory_limit);

}  // namespace linkwise
