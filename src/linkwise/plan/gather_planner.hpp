// Whether rows of a table's columns are gathered on GPUs or on the host's cores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"

namespace linkwise {

/// Columns without data: `width` of one of strings is their mean length, and each has one chunk.
struct GatherWorkload {
  std::vector<ChunkedColumn> columns;
  std::uint64_t rows = 0;  ///< that are wanted
  int row_bytes = 4;       ///< of a row's number

  void add(ChunkedColumn::Layout layout, int width, std::uint64_t source_rows, bool pageable);
};

struct GatherPrice {
  double on_gpus = 0, on_cores = 0;  ///< seconds; infinite without the memory or the access for it
};

/// GPUs by estimate, the cores by the host's rate.
GatherPrice price_gather(const Machine& machine, const GatherWorkload& workload, std::span<const int> gpus,
                         std::uint64_t memory_limit);

}  // namespace linkwise
