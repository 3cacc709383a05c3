// Runs in host memory merged two by two on the GPUs, as Rui et al. do (PVLDB 14(4), 2021; join25 §1).
//
// The host cuts each two runs along their merge path into blocks; a GPU takes a block's two parts, merges them and
// sends them back, while the next block arrives. After log2(runs) rounds, in each of which everything crosses to the
// GPUs and back, one run is left. No GPU sends to another. gpu_merge merges all runs in one round.
#pragma once

#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Merges runs, which lie one behind the other, of codes. `spare` has as much room. Returns the one that is left, in
/// the runs' memory or in the spare. Blocks.
Records merge_pairwise(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Records> runs,
                       const MemoryView& memory, const MemoryView& spare);

}  // namespace linkwise
