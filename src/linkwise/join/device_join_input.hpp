// What is joined of what lies on the GPUs.
#pragma once

#include "linkwise/join/join_plan.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace linkwise {

struct DeviceJoinInput {
  DeviceColumns left, right;  ///< a part of each on each of the plan's GPUs
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< where they are summed
  int row_number_bytes = 8;  ///< of the numbers that stand for rows of a side that came without values; 4 or 8
  bool verify = true;
  bool any_order = false;  ///< the rows of an inner join may stand in any order, and on any of the GPUs
};

}  // namespace linkwise
