// What hash joins of device-resident data take, by the machine model's rates.
#pragma once

#include "linkwise/join/device_hash/hash_parts.hpp"
#include "linkwise/machine/machine.hpp"
#include "linkwise/primitives/join_table.hpp"

namespace linkwise {

/// A join as far as its price depends on it.
struct JoinToPrice {
  KeyWidth width = KeyWidth::k32;
  std::uint64_t build_rows = 0, probe_rows = 0;  ///< of all GPUs
  std::size_t gpus = 1;
  std::uint64_t carried_bytes = 0;  ///< with each key, through the passes of a partitioned join
  std::uint64_t written_bytes = 0;  ///< for each probe row; 0: rows are counted
  bool verify = true;
  double hot_share = 0;  ///< of the probe rows, whose keys are few enough to stay in the caches
};

/// Seconds of a partitioned hash join whose sides are distributed evenly over the GPUs.
double seconds_of_partitioned(const Machine& machine, const JoinToPrice& join, const HashLayout& layout);
/// Seconds of a join with one table on each GPU, of all build rows, with so many places.
double seconds_of_unpartitioned(const Runtime& runtime, const JoinToPrice& join, TableKind kind, std::uint64_t places);

}  // namespace linkwise
