// Finds the rows of two relations with equal keys from the sorted order of both together.
//
// The rows of the left relation and then those of the right are numbered consecutively and sorted stably as one
// sequence, by any sort. The rows of a key are then adjacent, left ones before right ones, so one pass finds all
// matches for any type of key; the m:n matches of a key are the product of its two ranges (join25 §3.3). All cores
// write equal shares of the output, whatever the key skew.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/join/join_kind.hpp"
#include "linkwise/primitives/host/row_keys.hpp"

namespace linkwise {

/// Sizes of the matches as ranges, as in join25 §3.3.3: every row of a key's left range matches every row of its
/// right range. However many pairs there are, the ranges have no more rows than both relations.
struct RangeSizes {
  std::uint64_t keys = 0, left_rows = 0, right_rows = 0;
};
/// `left_first` and `right_first`: where the range of each matching key begins in `left_rows` and `right_rows`,
/// followed by the end of the last range, so one entry more than there are keys.
struct RangeArrays {
  std::int64_t *left_first = nullptr, *right_first = nullptr;
  std::int64_t *left_rows = nullptr, *right_rows = nullptr;
};

class Matches {
 public:
  /// `keys`: of both relations. `rows`: their sorted row numbers (of `row_bytes`, 4 or 8), of which those below
  /// `left_rows` belong to the left relation. `words`: the sorted key words if they alone decide the order, otherwise
  /// null. Keys with a null match nothing unless `nulls_equal`. `rows` must outlive this.
  Matches(const RowKeys& keys, KeyWidth width, const void* words, int row_bytes, const void* rows,
          std::uint64_t left_rows, bool nulls_equal);

  /// The number of rows of the result. @throws UsageError if it exceeds 2^63 - 1.
  [[nodiscard]] std::uint64_t count(JoinKind kind) const;
  /// Writes the left and the right row numbers of rows [first, first + count) of the result, which is ordered by key,
  /// left row and right row; -1 stands for no row. For semi and anti joins, `right` may be null, and the left rows
  /// are in ascending order if all are written at once.
  void write(JoinKind kind, std::uint64_t first, std::uint64_t count, std::int64_t* left, std::int64_t* right) const;

  [[nodiscard]] RangeSizes range_sizes() const;
  void write_ranges(const RangeArrays& to) const;

  /// Whether no key occurs twice among the rows that can match.
  [[nodiscard]] bool left_is_unique() const { return left_is_unique_; }
  [[nodiscard]] bool right_is_unique() const { return right_is_unique_; }

 private:
  /// The rows of one key, as positions in the sorted order.
  struct Group {
    std::uint64_t begin = 0, middle = 0, end = 0;  // left rows, then right rows from `middle` on
    bool never_matches = false;

    [[nodiscard]] std::uint64_t left() const { return middle - begin; }
    [[nodiscard]] std::uint64_t right() const { return end - middle; }
    [[nodiscard]] bool matches() const { return !never_matches && left() > 0 && right() > 0; }
  };

  [[nodiscard]] std::uint64_t row(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t rows_of(const Group& group, JoinKind kind) const;
  [[nodiscard]] std::vector<std::uint64_t> ends(JoinKind kind) const;
  void write_one(const Group& group, JoinKind kind, std::uint64_t index, std::int64_t* left, std::int64_t* right) const;

  int row_bytes_;
  const void* rows_;
  std::uint64_t left_rows_;
  std::vector<Group> groups_;
  bool left_is_unique_ = true, right_is_unique_ = true;
};

}  // namespace linkwise
