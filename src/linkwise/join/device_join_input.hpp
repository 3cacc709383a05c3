// The input of a join of device-resident data.
#pragma once

#include "linkwise/join/join_plan.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {

/// A sort-merge join, a hash join whose parts fit in shared memory, or an automatic choice (`chosen`).
enum class DeviceJoinWay : std::uint8_t { chosen, sort_merge, hash };

struct DeviceJoinInput {
  DeviceColumns left, right;  ///< each side has one part on each of the plan's GPUs
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< for sums
  int row_number_bytes = 8;  ///< width of the row numbers of a side without values: 4 or 8
  bool verify = true;
  bool any_order = false;  ///< the rows may stand in any order, and on any of the GPUs
  DeviceJoinWay way = DeviceJoinWay::chosen;
  std::uint32_t hash_table_rows = 0;  ///< build rows in a hash table at once; 0: chosen for the GPU
};

}  // namespace linkwise
