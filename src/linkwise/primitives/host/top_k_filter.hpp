// Finding the least of many without sorting them.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// The positions, in their order, of at least the `k` least words, and of few others: of those that agree with the
/// greatest of them in the upper bits, or are equal to it. Reads the words two to five times.
std::vector<std::uint64_t> positions_of_least(KeyWidth width, const void* words, std::uint64_t count, std::uint64_t k);

}  // namespace linkwise
