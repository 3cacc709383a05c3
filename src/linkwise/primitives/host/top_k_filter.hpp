// Finding the least of many words without sorting them.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// The positions, in ascending order, of the `k` least words and of few others: those that agree with the k-th in the
/// upper bits, or are equal to it. Reads the words two to five times.
std::vector<std::uint64_t> positions_of_least(KeyWidth width, const void* words, std::uint64_t count, std::uint64_t k);

}  // namespace linkwise
