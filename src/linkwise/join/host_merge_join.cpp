#include "linkwise/join/host_merge_join.hpp"

#include <algorithm>
#include <limits>

#include "linkwise/error.hpp"
#include "linkwise/join/out_of_core/matched_keys.hpp"
#include "linkwise/primitives/host/positions.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t block_rows = 1 << 14;  // rows that a core does at once

}  // namespace

Matches::Matches(const RowKeys& keys, KeyWidth width, const void* words, int row_bytes, const void* rows,
                 std::uint64_t left_rows, bool nulls_equal)
    : row_bytes_(row_bytes), rows_(rows), left_rows_(left_rows) {
  const std::uint64_t count = keys.rows();
  std::vector<std::uint64_t> starts;
  with_key(to_key_width(row_bytes), [&](auto tag) {
    if (words == nullptr) starts = keys.starts_of_runs(static_cast<const typename decltype(tag)::type*>(rows), count);
  });
  if (words != nullptr)
    with_key(width, [&](auto tag) {
      const auto* data = static_cast<const typename decltype(tag)::type*>(words);
      starts = positions_where(count, [&](std::uint64_t i) { return i == 0 || data[i] != data[i - 1]; });
    });
  groups_.resize(starts.size());
  bool left_is_unique = true, right_is_unique = true;
#pragma omp parallel for schedule(static) reduction(&& : left_is_unique, right_is_unique) \
    num_threads(team_if(count > block_rows))
  for (std::size_t g = 0; g < starts.size(); ++g) {
    Group& group = groups_[g];
    group.begin = starts[g];
    group.end = g + 1 < starts.size() ? starts[g + 1] : count;
    std::uint64_t low = group.begin, high = group.end;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (row(middle) < left_rows_) low = middle + 1;
      else high = middle;
    }
    group.middle = low;
    group.never_matches = !nulls_equal && keys.has_null(row(group.begin));
    left_is_unique = left_is_unique && (group.never_matches || group.left() <= 1);
    right_is_unique = right_is_unique && (group.never_matches || group.right() <= 1);
  }
  left_is_unique_ = left_is_unique;
  right_is_unique_ = right_is_unique;
}

std::uint64_t Matches::row(std::uint64_t position) const {
  return row_bytes_ == 4 ? static_cast<const std::uint32_t*>(rows_)[position]
                         : static_cast<const std::uint64_t*>(rows_)[position];
}

std::uint64_t Matches::rows_of(const Group& group, JoinKind kind) const {
  if (kind == JoinKind::semi) return group.matches() ? group.left() : 0;
  if (kind == JoinKind::anti) return group.matches() ? 0 : group.left();
  if (!group.matches()) return (keeps_left(kind) ? group.left() : 0) + (keeps_right(kind) ? group.right() : 0);
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(group.left(), group.right(), &product)) return std::numeric_limits<std::uint64_t>::max();
  return product;
}

// Where each group's rows end in the result.
std::vector<std::uint64_t> Matches::ends(JoinKind kind) const {
  std::vector<std::uint64_t> ends(groups_.size());
#pragma omp parallel for schedule(static) num_threads(team_if(groups_.size() > block_rows))
  for (std::size_t g = 0; g < groups_.size(); ++g) ends[g] = rows_of(groups_[g], kind);
  add_up(ends);
  return ends;
}

std::uint64_t Matches::count(JoinKind kind) const { return groups_.empty() ? 0 : ends(kind).back(); }

void Matches::write_one(const Group& group, JoinKind kind, std::uint64_t index, std::int64_t* left,
                        std::int64_t* right) const {
  const auto left_row = [&](std::uint64_t i) { return static_cast<std::int64_t>(row(group.begin + i)); };
  const auto right_row = [&](std::uint64_t i) { return static_cast<std::int64_t>(row(group.middle + i) - left_rows_); };
  if (is_filter(kind)) {
    *left = left_row(index);
  } else if (group.matches()) {
    *left = left_row(index / group.right());
    *right = right_row(index % group.right());
  } else if (const std::uint64_t of_left = keeps_left(kind) ? group.left() : 0; index < of_left) {
    *left = left_row(index);
    *right = -1;
  } else {
    *left = -1;
    *right = right_row(index - of_left);
  }
}

void Matches::write(JoinKind kind, std::uint64_t first, std::uint64_t count, std::int64_t* left,
                    std::int64_t* right) const {
  const std::vector<std::uint64_t> ends = this->ends(kind);
  const std::uint64_t end = first + count;
#pragma omp parallel for schedule(dynamic) num_threads(team_if(count > block_rows))
  for (std::uint64_t begin = first; begin < end; begin += block_rows) {
    const std::uint64_t last = std::min(begin + block_rows, end);
    auto g = static_cast<std::size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
    for (std::uint64_t i = begin; i < last; ++g) {
      const std::uint64_t of_group = g == 0 ? 0 : ends[g - 1];
      for (; i < std::min(last, ends[g]); ++i)
        write_one(groups_[g], kind, i - of_group, left + (i - first), right == nullptr ? nullptr : right + (i - first));
    }
  }
  if (is_filter(kind)) std::sort(left, left + count);
}

RangeSizes Matches::range_sizes() const {
  std::uint64_t keys = 0, left = 0, right = 0;
#pragma omp parallel for schedule(static) reduction(+ : keys, left, right) \
    num_threads(team_if(groups_.size() > block_rows))
  for (const Group& group : groups_) {
    if (!group.matches()) continue;
    ++keys;
    left += group.left();
    right += group.right();
  }
  return {keys, left, right};
}

void Matches::write_ranges(const RangeArrays& to) const {
  const std::vector<std::uint64_t> matching =
      positions_where(groups_.size(), [&](std::uint64_t g) { return groups_[g].matches(); });
  to.left_first[0] = to.right_first[0] = 0;
  for (std::size_t k = 0; k < matching.size(); ++k) {
    const Group& group = groups_[matching[k]];
    to.left_first[k + 1] = to.left_first[k] + static_cast<std::int64_t>(group.left());
    to.right_first[k + 1] = to.right_first[k] + static_cast<std::int64_t>(group.right());
  }
  // All cores take equal shares, however many rows a key has.
  const auto write_side = [&](const std::int64_t* first, std::int64_t* rows, bool is_left) {
    const std::int64_t* const ends = first + 1;
    const auto count = static_cast<std::uint64_t>(first[matching.size()]);
#pragma omp parallel for schedule(dynamic) num_threads(team())
    for (std::uint64_t begin = 0; begin < count; begin += block_rows) {
      const auto last = static_cast<std::int64_t>(std::min(begin + block_rows, count));
      auto at = static_cast<std::int64_t>(begin);
      for (auto k = std::upper_bound(ends, ends + matching.size(), at) - ends; at < last; ++k) {
        const Group& group = groups_[matching[k]];
        const std::uint64_t from = is_left ? group.begin : group.middle;
        for (; at < std::min(last, ends[k]); ++at)
          rows[at] = static_cast<std::int64_t>(row(from + (at - first[k])) - (is_left ? 0 : left_rows_));
      }
    }
  };
  write_side(to.left_first, to.left_rows, true);
  write_side(to.right_first, to.right_rows, false);
}

}  // namespace linkwise
