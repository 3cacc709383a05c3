// In which order P2P sort may merge GPUs the fastest (sort22 §5.4).
//
// Positions decide who exchanges: keys in no order put each pivot near the middle, so that the second half of a group's
// left side and the first half of its right side change places.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// Orders of 4 or 8 GPUs, the given one first, then those whose links carry what changes sides the fastest, a few at
/// most. Orders that exchange at the same rates are one; of other numbers of GPUs the given order is all there is.
std::vector<std::vector<int>> merge_orders(Topology& topology, const std::vector<int>& gpus);

}  // namespace linkwise
