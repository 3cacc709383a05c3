// What is to be sorted, and what the caller pins of how.
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
  bool pageable = false;      ///< the input is not page-locked
  bool pageable_out = false;  ///< neither is the output
  bool verify = true;

  friend bool operator==(const SortWorkload&, const SortWorkload&) = default;
};

/// What the caller pins; empty means: choose.
struct SortConstraints {
  std::vector<int> gpus;
  std::optional<SortStrategy> strategy;
  std::uint64_t memory_limit = 0;  ///< bytes a GPU; 0: all of it
  Pinned<SortPlan> pinned;         ///< of the other fields
};

}  // namespace linkwise
