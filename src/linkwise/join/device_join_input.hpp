// The input of a join of device-resident data.
#pragma once

#include "linkwise/join/join_plan.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {

/// How to join.
enum class DeviceJoinWay : std::uint8_t {
  chosen,         ///< by price, and by what samples show of skew
  sort_merge,     ///< sorts both sides
  hash,           ///< partitions both sides until tables of the shorter one fit in shared memory
  unpartitioned,  ///< one hash table of the shorter side on each GPU
  direct          ///< the same, indexed by keys: unique integers in a narrow range
};

struct DeviceJoinInput {
  DeviceColumns left, right;  ///< each side has one part on each of the plan's GPUs
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< for sums
  int row_number_bytes = 8;  ///< width of the row numbers of a side without values: 4 or 8
  bool verify = true;
  bool any_order = false;  ///< the rows may stand in any order, and on any of the GPUs
  DeviceJoinWay way = DeviceJoinWay::chosen;
  std::uint32_t hash_table_rows = 0;  ///< build rows in a table of `hash` at once, which is then not priced; 0: chosen
};

}  // namespace linkwise
