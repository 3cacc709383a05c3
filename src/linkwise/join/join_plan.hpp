// What a join is asked for, and how it is to be done.
#pragma once

#include <cstdint>
#include <functional>

#include "linkwise/join/matches.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Two relations in host memory. Their keys are of one type; values are what the result shows of a row, or is summed.
struct JoinInput {
  HostColumns left, right;
  JoinKind kind = JoinKind::inner;
  bool left_values_signed = false, right_values_signed = false;  ///< where they are summed
  bool verify = true;                  ///< order and multiset checksum of both sides, on the GPUs
  std::uint64_t expected_matches = 0;  ///< what an estimate takes; 0: one for each row of the longer side
};

std::uint64_t expected_matches(const JoinInput& input);

/// The number of rows of the result and, over its matches, the sums of values of 4 or 8 bytes, modulo 2^64.
struct JoinTotals {
  std::uint64_t rows = 0;
  std::uint64_t left_sum = 0, right_sum = 0;
};

/// Where the rows of the result go; a null array is not brought back. Of a side that has no row, the value has all bits
/// set. Keys are the left side's.
struct JoinOutputs {
  void* keys = nullptr;
  void* left_values = nullptr;
  void* right_values = nullptr;
  bool pageable = false;
};
/// Called once, with the number of rows.
using MakeOutputs = std::function<JoinOutputs(std::uint64_t rows)>;

struct JoinPlan {
  SortPlan sort;                        ///< its GPUs, pieces, samples and paths
  int batches = 8;                      ///< in which the probing side passes when only totals are asked for
  std::uint64_t window_rows = 1 << 21;  ///< of the result that a GPU makes at once
};

}  // namespace linkwise
