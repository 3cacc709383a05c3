// What one GPU contributes to an exchange, and how many of its records go to each part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

struct ExchangeInput {
  Stream stream;
  Records records;
  MemoryView scratch;  ///< for partitioning them
  MemoryView totals;   ///< 64 bits for each part, at least
  Splitters splitters = {};
};

/// The number of each input's records in each part. Blocks until they have been counted; an estimate takes them for
/// equal.
std::vector<std::vector<std::uint64_t>> count_parts(Runtime& runtime, std::span<const ExchangeInput> inputs,
                                                    std::size_t parts);

}  // namespace linkwise
