// The words that the microbenchmark generates.
#pragma once

#include <cstdint>

#include "linkwise/transfer/proactive/block.hpp"

namespace linkwise::apps {

struct alignas(16) SyntheticWords {
  std::uint32_t word[4];
};

LINKWISE_HOST_DEVICE inline SyntheticWords synthetic_words(std::uint64_t i, std::uint32_t iteration, int steps) {
  std::uint32_t value = static_cast<std::uint32_t>(i) * 2654435761U + iteration;
  for (int s = 0; s < steps; ++s) value = value * 1664525U + 1013904223U;
  return {{value, value + 1, value + 2, value + 3}};
}

}  // namespace linkwise::apps
