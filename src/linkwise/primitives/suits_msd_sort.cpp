// Whether a GPU's local sort is the MSD radix sort or CUB's LSD radix sort, as a sample of the keys tells.
#include <algorithm>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {
namespace {

// Whether keys occur so often that the parts of two levels are uneven and their bins long. In a sample, keys
// are repeated as chance has it; fewer than three repetitions tell nothing.
bool occur_often(std::uint64_t count, const KeySpread& spread) {
  constexpr std::uint32_t fewest_pairs = 3;
  constexpr double least_times = 50, most_times = 20'000;  // more often: a part has one key
  const std::uint32_t pairs = spread.sampled > 0 ? spread.repeated : spread.equal;
  const double sampled = spread.sampled > 0 ? spread.sampled : spread.compared;
  const double times = static_cast<double>(count) * pairs / (sampled * sampled / 2);
  return pairs >= fewest_pairs && least_times <= times && times <= most_times;
}

}  // namespace

bool suits_msd_sort(RecordType type, std::uint64_t count, const KeySpread& spread) {
  constexpr std::uint64_t many_narrow = 16'000'000;  // as many are sorted sooner however they lie
  constexpr std::uint64_t many_alone = 250'000'000;  // 32-bit keys without values: MSD radix sort is as fast from here
  if (spread.is_narrow != 0 && count >= many_narrow) return true;
  const auto share_of_compared = [&](std::uint32_t keys) {
    return static_cast<double>(keys) / std::max(spread.compared, 1u);
  };
  const double equal = share_of_compared(spread.equal);
  if (equal > 0.98) return true;  // a part with only equal keys needs no further level
  const bool is_alone = type.value == ValueWidth::none, is_long_array = is_alone && count >= many_alone;
  if (type.key == KeyWidth::k32 && !is_long_array && 0.3 < equal && equal < 0.9) return false;
  // LSD radix sort takes fewer passes for the keys, or moves fewer bytes in each.
  const bool is_short = type.key == KeyWidth::k32 || type.value == ValueWidth::v4;
  if (is_short && !is_long_array && occur_often(count, spread)) return false;
  // At least half of the parts that uniformly distributed keys would occupy must be occupied.
  if (1 - share_of_compared(spread.crowded) < (1 - share_of_compared(spread.crowded_if_even)) / 2) return false;
  if (spread.in_digits < spread.compared) return true;  // most digits cover few keys
  const double first_quarter = static_cast<double>(spread.in_first_quarter) / std::max(spread.in_digits, 1u);
  const auto is_even = [](double share) { return 0.15 <= share && share <= 0.4; };
  if (is_even(first_quarter)) return true;
  // One key that occurs often takes little time, and lies in one quarter of its digit; the others tell how keys lie.
  const double others = 1 - equal;
  return (is_long_array || (is_alone && type.key == KeyWidth::k64)) &&
         (is_even(first_quarter / others) || is_even((first_quarter - equal) / others));
}

bool may_suit_msd_sort(const Kernels& kernels, RecordType type, std::uint64_t count) {
  return count >= kernels.fewest_for_msd_sort(type) && kernels.msd_sort_scratch_bytes(type, count) > 0;
}

}  // namespace linkwise
