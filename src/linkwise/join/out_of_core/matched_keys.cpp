#include "linkwise/join/out_of_core/matched_keys.hpp"

#include <limits>

#include "linkwise/error.hpp"

namespace linkwise {

void add_up(std::vector<std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (std::uint64_t& count : counts) {
    if (__builtin_add_overflow(sum, count, &sum) ||
        sum > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw UsageError(
          "the result has more than 2^63 rows; join by more columns, or make the keys of a side unique first");
    count = sum;
  }
}

}  // namespace linkwise
