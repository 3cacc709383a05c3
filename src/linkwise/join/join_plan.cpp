#include "linkwise/join/join_plan.hpp"

#include <algorithm>

namespace linkwise {

std::uint64_t expected_matches(const JoinInput& input) {
  return input.expected_matches > 0 ? input.expected_matches : std::max(input.left.count, input.right.count);
}

}  // namespace linkwise
