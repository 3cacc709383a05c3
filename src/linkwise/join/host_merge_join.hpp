// Which rows of two relations have equal keys, from the order of both together.
//
// The rows of the left relation and then those of the right are numbered through and sorted stably as one sequence, by
// whichever sort. The rows of a key then stand together, the left ones before the right ones, so all matches
// are found in one pass, whatever the keys are made of; the m:n matches of a key are the product of its two ranges
// (join25 §3.3). Output is written in equal parts, however unevenly the keys share it.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/join/join_kind.hpp"
#include "linkwise/primitives/host/row_keys.hpp"

namespace linkwise {

/// The matches key by key, as join25 §3.3.3 leaves them: every row of a key's left range matches every one of its
/// right range. However many pairs there are, no more rows than both relations have.
struct RangeSizes {
  std::uint64_t keys = 0, left_rows = 0, right_rows = 0;
};
/// Where the ranges of each key that matches begin in the rows, and their ends: one more than there are keys.
struct RangeArrays {
  std::int64_t *left_first = nullptr, *right_first = nullptr;
  std::int64_t *left_rows = nullptr, *right_rows = nullptr;
};

class Matches {
 public:
  /// `keys` are those of both relations, `rows` (row numbers of `row_bytes`, 4 or 8) their order, and the first
  /// `left_rows` numbers the left relation's. `words`, in order, if they decide the order alone; otherwise null. Keys
  /// with a null match nothing unless `nulls_equal`. `rows` must outlive this.
  Matches(const RowKeys& keys, KeyWidth width, const void* words, int row_bytes, const void* rows,
          std::uint64_t left_rows, bool nulls_equal);

  /// Rows of the result. @throws UsageError if they are more than 2^63 - 1.
  [[nodiscard]] std::uint64_t count(JoinKind kind) const;
  /// The row of the left relation and that of the right for rows [first, first + count) of the result, by key, and
  /// within a key by left row and then by right row; -1 for none. Of semi and anti, `right` may be null, and the left
  /// rows are in their own order if all are written.
  void write(JoinKind kind, std::uint64_t first, std::uint64_t count, std::int64_t* left, std::int64_t* right) const;

  [[nodiscard]] RangeSizes range_sizes() const;
  void write_ranges(const RangeArrays& to) const;

  /// Whether no key occurs twice among the rows that can match.
  [[nodiscard]] bool left_is_unique() const { return left_is_unique_; }
  [[nodiscard]] bool right_is_unique() const { return right_is_unique_; }

 private:
  /// The rows of one key: positions in the order.
  struct Group {
    std::uint64_t begin = 0, middle = 0, end = 0;  // left rows, and right rows from the middle on
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
