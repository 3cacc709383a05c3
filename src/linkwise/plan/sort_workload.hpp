// The workload of a sort, and what the caller pins of its plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linkwise/plan/pinned.hpp"
#include "linkwise/primitives/types.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

struct SortWorkload {
  KeyType key_type = KeyType::u32;
  std::uint64_t count = 0;
  ValueWidth value_width = ValueWidth::none;
  bool values_from_host = false;  ///< otherwise row numbers, or none
  bool keys_returned = true;
  ExpectedOrder expected_order = ExpectedOrder::random;
  bool pageable = false;      ///< the input is not pinned
  bool pageable_out = false;  ///< the output is not pinned
  bool verify = true;

  friend bool operator==(const SortWorkload&, const SortWorkload&) = default;
};

/// What the caller pins; the planner chooses what is left empty.
struct SortConstraints {
  std::vector<int> gpus;
  std::optional<SortStrategy> strategy;
  std::uint64_t memory_limit = 0;  ///< bytes a GPU; 0: all of it
  Pinned<SortPlan> pinned;         ///< of the other fields
};

}  // namespace linkwise
