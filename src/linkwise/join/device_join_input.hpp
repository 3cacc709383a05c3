// What is joined of what lies on the GPUs.
#pragma once

#include "linkwise/join/join_plan.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {

/// Sorting both sides and merging them, or hashing them into parts that fit the memory of thread blocks.
enum class DeviceJoinWay : std::uint8_t { chosen, sort_merge, hash };

struct DeviceJoinInput {
  DeviceColumns left, right;  ///< a part of each on each of the plan's GPUs
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< where they are summed
  int row_number_bytes = 8;  ///< of the numbers that stand for rows of a side that came without values; 4 or 8
  bool verify = true;
  bool any_order = false;  ///< the rows may stand in any order, and on any of the GPUs
  DeviceJoinWay way = DeviceJoinWay::chosen;
  std::uint32_t hash_table_rows = 0;  ///< of the build side in a hash table at once; 0: as many as suit the GPU
};

}  // namespace linkwise
