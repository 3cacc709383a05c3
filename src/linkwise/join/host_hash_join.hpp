// Which rows of two relations have equal keys, found by a hash table of one of them.
//
// The rows of the side that is looked up come in their own order, and for each the rows of the table's side with its
// key; then those rows of the table's side that nobody found, where the join keeps them. Output is written in equal
// parts, however unevenly the keys share it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "linkwise/join/join_kind.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/host/key_table.hpp"

namespace linkwise {

/// Row numbers of the result: of 8 bytes, -1 for none; or of 4, where no row is missing.
struct RowsOfJoin {
  int row_bytes = 8;
  void *left = nullptr, *right = nullptr;  ///< right: null for semi and anti joins
};

/// Which rows of a table's side somebody has found, of all those that look keys up in it, one after the other or at
/// once.
class FoundRows {
 public:
  explicit FoundRows(std::shared_ptr<const KeyTable> table) : table_(std::move(table)), groups_(table_->groups()) {}
  /// Adds what each of some rows has found. By any thread.
  void add(const std::uint32_t* groups, std::uint64_t rows);
  /// The rows that were found, or those that nobody found, rising.
  [[nodiscard]] std::vector<std::uint32_t> rows(bool found) const;

 private:
  std::shared_ptr<const KeyTable> table_;
  std::vector<std::uint8_t> groups_;
};

class HashMatches {
 public:
  /// The table is of the left side or of the right, and of nobody else. What the keys point to must outlive this.
  /// @throws UsageError if that side has more rows than a table takes, OutOfMemoryError.
  HashMatches(const KeyWords& left, const KeyWords& right, bool build_left)
      : HashMatches(std::make_shared<const KeyTable>(build_left ? left : right), build_left ? right : left,
                    build_left) {}
  /// Some rows of the side that is looked up, in a table that others may share.
  HashMatches(std::shared_ptr<const KeyTable> table, const KeyWords& others, bool build_left);

  /// Adds the rows of the table's side that were found here.
  void add_to(FoundRows& found) const { found.add(groups(), others_.rows); }

  /// Rows of the result. @throws UsageError if they are more than 2^63 - 1.
  [[nodiscard]] std::uint64_t count(JoinKind kind);
  /// Rows [first, first + count) of the result; those of a key by rising numbers.
  void write(JoinKind kind, std::uint64_t first, std::uint64_t count, const RowsOfJoin& to);
  /// Whether every row of the side that is looked up comes once, in its order, and nothing else.
  [[nodiscard]] bool keeps_each_row(JoinKind kind);
  [[nodiscard]] bool builds_left() const { return build_left_; }

  /// Whether no key occurs twice among the rows that can match.
  [[nodiscard]] bool left_is_unique() const { return build_left_ ? table_->is_unique() : others_are_unique(); }
  [[nodiscard]] bool right_is_unique() const { return build_left_ ? others_are_unique() : table_->is_unique(); }

 private:
  /// What a kind of join keeps, seen from the side that is looked up.
  struct Wanted {
    bool pairs = true;
    bool unmatched = false;       // rows that are looked up and not found,
    bool once = false;            // or found, each once,
    bool of_table = false;        // rows of the table
    bool of_table_found = false;  // that somebody found, or nobody
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  /// Where every row that is looked up comes once at most: how often one comes that was found, or was not.
  struct Kept {
    std::uint32_t found = 0, unmatched = 0;
    [[nodiscard]] std::uint32_t of(std::uint32_t group) const { return group == KeyTable::nowhere ? unmatched : found; }
  };
  [[nodiscard]] bool comes_once(const Wanted& wanted) const { return !wanted.pairs || table_->is_unique(); }
  [[nodiscard]] static Kept kept_of(const Wanted& wanted) {
    return {wanted.pairs || wanted.once ? 1U : 0U, wanted.unmatched ? 1U : 0U};
  }
  [[nodiscard]] Wanted wanted(JoinKind kind) const;
  [[nodiscard]] std::uint64_t rows_for(std::uint32_t group, const Wanted& wanted) const;
  void prepare(JoinKind kind);
  [[nodiscard]] bool others_are_unique() const { return KeyTable(others_).is_unique(); }
  template <typename Row>
  void write_rows(const Wanted& wanted, std::uint64_t first, std::uint64_t count, Row* of_others, Row* of_table) const;
  [[nodiscard]] const std::uint32_t* groups() const { return reinterpret_cast<const std::uint32_t*>(groups_.data()); }

  bool build_left_;
  KeyWords others_;
  std::shared_ptr<const KeyTable> table_;
  HugePageBuffer groups_;                  // of each row that is looked up
  std::optional<Wanted> prepared_;         // for what the following is known
  std::vector<std::uint64_t> ends_;        // where each block of looked-up rows ends in the result
  std::vector<std::uint32_t> table_rows_;  // the rows of the table's side that come behind them
};

}  // namespace linkwise
