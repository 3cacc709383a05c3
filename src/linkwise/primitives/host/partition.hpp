// Partitioning records in host memory with all cores.
#pragma once

#include <array>
#include <cstdint>

#include "linkwise/primitives/kernels.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

inline constexpr std::size_t host_partitions = 256;

/// Copies `count` records to `to`, grouped by the lowest eight bits of their keys and otherwise in their original
/// order. Returns where each partition begins, and where the last one ends.
std::array<std::uint64_t, host_partitions + 1> partition_on_host(RecordType type, RawRecords from, RawRecords to,
                                                                 std::uint64_t count);

}  // namespace linkwise
