// Pricing several plans at once.
#pragma once

#include <cstddef>
#include <exception>
#include <vector>

#include "linkwise/team.hpp"

namespace linkwise {

/// Calls work(0), …, work(count - 1) on all cores. The first exception, if any, is rethrown when all are done.
template <typename Work>
void for_each_in_parallel(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
#pragma omp parallel for schedule(dynamic) num_threads(team())
  for (std::size_t i = 0; i < count; ++i) {
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace linkwise
