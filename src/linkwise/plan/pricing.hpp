// Shared by the planners of sorts and of joins: candidates are priced in waves, and the simplest of the best is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/plan/candidates.hpp"
#include "linkwise/plan/in_parallel.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

constexpr double hopeless = 1.25;           // times the best so far: a plan with more wire time cannot be the best
constexpr double as_good = 1.01;            // times the best: estimates are not exact enough to tell these apart
constexpr std::size_t priced_at_once = 12;  // independent of the number of cores, so that plans do not vary with it

/// The machine on a simulated clock, without data.
inline VirtualRuntime estimating_runtime(const Machine& machine) {
  return {machine, VirtualMode::estimate, 0, make_virtual_kernels()};
}

/// Calls price(candidate), which returns a vector of plans with their `seconds`, in order of wire time, until the
/// remaining candidates are hopeless and at least `enough` plans are priced. Returns all plans.
template <typename Price>
auto price_in_waves(std::span<const Candidate> candidates, std::size_t enough, const Price& price) {
  using Plans = decltype(price(candidates.front()));
  Plans found;
  double best = std::numeric_limits<double>::infinity();
  while (!candidates.empty() && (candidates.front().wire_seconds <= hopeless * best || found.size() < enough)) {
    const std::span<const Candidate> wave = candidates.first(std::min(candidates.size(), priced_at_once));
    candidates = candidates.subspan(wave.size());
    std::vector<Plans> priced(wave.size());
    for_each_in_parallel(wave.size(), [&](std::size_t c) { priced[c] = price(wave[c]); });
    for (Plans& of_candidate : priced)
      for (auto& plan : of_candidate) {
        best = std::min(best, plan.seconds);
        found.push_back(std::move(plan));
      }
  }
  return found;
}

/// Sorts by time, then moves the simplest of the plans as good as the best to the front: fewest GPUs, then fewest
/// detours.
template <typename Priced, typename SortPlanOf>
void simplest_of_the_best_first(std::vector<Priced>& found, const SortPlanOf& sort_plan_of) {
  std::ranges::stable_sort(found, {}, &Priced::seconds);
  const auto others =
      std::ranges::find_if(found, [&](const Priced& each) { return each.seconds > as_good * found.front().seconds; });
  const auto simplicity = [&](const Priced& each) {
    const SortPlan& plan = sort_plan_of(each);
    return std::pair(plan.gpus.size(), plan.paths.size());
  };
  const auto simplest = std::ranges::min_element(found.begin(), others, {}, simplicity);
  std::rotate(found.begin(), simplest, std::next(simplest));
}

}  // namespace linkwise
