// Symmetry between GPUs: of equivalent GPU sets, only one has to be considered.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// One GPU set of each equivalence class, the one with the lowest numbers; in order of size, then of number.
///
/// Two sets are equivalent if their GPUs can be paired so that the routes to the host and to each other have the same
/// widths (within 2 %, since links are measured) and share resources in the same way. This is decided by colour
/// refinement, which tells apart all sets that we know of. On a machine with more than twelve GPUs, GPUs count as
/// alike only if they are alike in the whole machine; with sixteen on a switch that leaves some hundreds of 65,535
/// sets. Then at most 64 classes of each size are considered, and on a machine with more than 32 GPUs two sets of
/// some sizes.
std::vector<std::vector<int>> distinct_gpu_sets(Topology& topology);

}  // namespace linkwise
