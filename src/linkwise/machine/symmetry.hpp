// Which GPUs are alike, so that of sets that differ only by that, one is looked at.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// One GPU set of each kind, the one with the lowest numbers, by size and then by number.
///
/// Two sets are of a kind when their GPUs can be paired such that the routes to the host and to each other have the
/// same widths (within 2 %: links are measured) and are shared alike. Whether they can is decided by refining colours,
/// which tells all sets apart that we know of. On a machine with more than twelve GPUs, those count as alike that are
/// so in the whole machine; with sixteen on a switch that leaves some hundreds of 65,535 sets. With more, no more than
/// 64 kinds of a size are looked at, and on a machine with more than 32 two sets of some sizes.
std::vector<std::vector<int>> distinct_gpu_sets(Topology& topology);

}  // namespace linkwise
