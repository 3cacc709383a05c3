// Merges runs in host memory pairwise on the GPUs, as Rui et al. do (PVLDB 14(4), 2021; join25 §1).
//
// The host cuts each pair of runs along their merge path into blocks. A GPU receives a block's two parts, merges them
// and sends them back, while the next block arrives. After log2(runs) rounds, in each of which all data crosses to
// the GPUs and back, one run is left. The GPUs exchange no data with each other. By contrast, gpu_merge merges all
// runs in one round.
#pragma once

#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Merges runs of codes that are contiguous in `memory`. `spare` is as large. Returns the merged run, which is in
/// `memory` or in `spare`. Blocks until it is complete.
Records merge_pairwise(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Records> runs,
                       const MemoryView& memory, const MemoryView& spare);

}  // namespace linkwise
