// The positions of a sequence at which something holds, found on all cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "linkwise/team.hpp"

namespace linkwise {

/// All i < count with holds(i), in ascending order.
template <typename Holds>
std::vector<std::uint64_t> positions_where(std::uint64_t count, Holds&& holds) {
  constexpr std::uint64_t block = 1 << 14;  // positions that a core examines at once
  std::vector<std::vector<std::uint64_t>> found((count + block - 1) / block);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(count > block))
  for (std::uint64_t b = 0; b < found.size(); ++b)
    for (std::uint64_t i = b * block; i < std::min((b + 1) * block, count); ++i)
      if (holds(i)) found[b].push_back(i);
  std::vector<std::uint64_t> positions;
  for (const auto& part : found) positions.insert(positions.end(), part.begin(), part.end());
  return positions;
}

}  // namespace linkwise
