// The orders of GPUs in which P2P sort may merge fastest (sort22 §5.4).
//
// Positions decide which GPUs exchange data: with random keys each pivot lies near the middle, so that the second
// half of a group's left side and the first half of its right side are swapped.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// For 4 or 8 GPUs: the given order, then a few orders whose links exchange the swapped data fastest. Of orders that
/// exchange at the same rates, only one is returned. For other numbers of GPUs: only the given order.
std::vector<std::vector<int>> merge_orders(Topology& topology, const std::vector<int>& gpus);

}  // namespace linkwise
