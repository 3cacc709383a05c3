// The keys that two sorted relations have in common, as the host reads them from the GPUs' results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/join/out_of_core/merge_path_partitions.hpp"
#include "linkwise/primitives/types.hpp"
#include "linkwise/team.hpp"

namespace linkwise {

/// A key that both relations have: all rows of the left range match all of the right one.
struct MatchedKey {
  RunRange left, right;
};

/// Consecutive keys in ascending order: a tile of the keys that a GPU found in a pair, or a single key that was taken
/// out of the pairs.
class KeyBlock {
 public:
  /// `ranges`, which must not be empty, are relative to the rows `left` and `right`.
  KeyBlock(std::uint64_t left, std::uint64_t right, std::span<const KeyRange> ranges)
      : ranges_(ranges), first_{{left, left}, {right, right}} {}
  explicit KeyBlock(const MatchedKey& only) : first_(only) {}

  [[nodiscard]] std::uint64_t size() const { return ranges_.empty() ? 1 : ranges_.size(); }
  [[nodiscard]] MatchedKey operator[](std::uint64_t i) const {
    if (ranges_.empty()) return first_;
    const std::uint64_t left = first_.left.begin, right = first_.right.begin;
    const KeyRange& range = ranges_[i];
    return {{left + range.left_begin, left + range.left_end}, {right + range.right_begin, right + range.right_end}};
  }
  [[nodiscard]] MatchedKey last() const { return (*this)[size() - 1]; }

 private:
  std::span<const KeyRange> ranges_;
  MatchedKey first_;
};

/// In ascending order of keys.
using KeyBlocks = std::vector<KeyBlock>;

/// Replaces the counts by their inclusive prefix sums. @throws UsageError if these exceed 2^63 - 1.
void add_up(std::vector<std::uint64_t>& counts);

/// Exclusive prefix sums of `of_block(number)` over the blocks, followed by the total. `of_block` is called on all
/// cores. @throws as above.
template <typename OfBlock>
std::vector<std::uint64_t> running_sums_of(const KeyBlocks& blocks, const OfBlock& of_block) {
  std::vector<std::uint64_t> sums(blocks.size() + 1);
#pragma omp parallel for schedule(dynamic, 16) num_threads(team())
  for (std::size_t b = 0; b < blocks.size(); ++b) sums[b + 1] = of_block(b);
  add_up(sums);
  return sums;
}

/// Divides the total of `sums` into equal parts [begin, end), whatever the sizes of the blocks, and calls
/// body(block, begin, end) for each on all cores. A part begins in that block and may extend into later ones.
template <typename Body>
void in_equal_parts(const std::vector<std::uint64_t>& sums, const Body& body) {
  constexpr std::uint64_t part = 1 << 14;
  const std::uint64_t total = sums.back();
#pragma omp parallel for schedule(dynamic) num_threads(team())
  for (std::uint64_t begin = 0; begin < total; begin += part) {
    const auto block = static_cast<std::size_t>(std::ranges::upper_bound(sums, begin) - sums.begin()) - 1;
    body(block, begin, std::min(begin + part, total));
  }
}

}  // namespace linkwise
