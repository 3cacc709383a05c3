// Finds the rows of two relations with equal keys, by a hash table of one of them (the build side).
//
// The result follows the order of the probe side: for each of its rows, the build rows with its key; then the build
// rows that the join keeps by themselves. All cores write equal shares of the output, whatever the key skew.
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

/// Row numbers of the result: 8 bytes wide with -1 for no row, or 4 bytes wide if no row is missing.
struct RowsOfJoin {
  int row_bytes = 8;
  void *left = nullptr, *right = nullptr;  ///< right: null for semi and anti joins
};

/// Collects which build rows were matched over several probes of a table, sequential or concurrent.
class FoundRows {
 public:
  explicit FoundRows(std::shared_ptr<const KeyTable> table) : table_(std::move(table)), groups_(table_->groups()) {}
  /// Marks the groups that some probe rows have found. Thread-safe.
  void add(const std::uint32_t* groups, std::uint64_t rows);
  /// The build rows that were matched, or those that were not, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> rows(bool found) const;

 private:
  std::shared_ptr<const KeyTable> table_;
  std::vector<std::uint8_t> groups_;
};

class HashMatches {
 public:
  /// Builds a table of its own, of the left or the right side. What the keys point to must outlive this.
  /// @throws UsageError if that side has more rows than a table takes, OutOfMemoryError.
  HashMatches(const KeyWords& left, const KeyWords& right, bool build_left)
      : HashMatches(std::make_shared<const KeyTable>(build_left ? left : right), build_left ? right : left,
                    build_left) {}
  /// Probes a table, which may be shared with others, with some rows of the probe side.
  HashMatches(std::shared_ptr<const KeyTable> table, const KeyWords& others, bool build_left);

  /// Adds the build rows that were matched here.
  void add_to(FoundRows& found) const { found.add(groups(), others_.rows); }

  /// The number of rows of the result. @throws UsageError if it exceeds 2^63 - 1.
  [[nodiscard]] std::uint64_t count(JoinKind kind);
  /// Writes rows [first, first + count) of the result. The build rows of a key are in ascending order.
  void write(JoinKind kind, std::uint64_t first, std::uint64_t count, const RowsOfJoin& to);
  /// Whether the result has every row of the probe side exactly once, in order, and nothing else.
  [[nodiscard]] bool keeps_each_row(JoinKind kind);

  /// Whether no key occurs twice among the rows that can match.
  [[nodiscard]] bool left_is_unique() const { return build_left_ ? table_->is_unique() : others_are_unique(); }
  [[nodiscard]] bool right_is_unique() const { return build_left_ ? others_are_unique() : table_->is_unique(); }

 private:
  /// What a kind of join emits, seen from the probe side.
  struct Wanted {
    bool pairs = true;
    bool unmatched = false;       // probe rows without a match
    bool once = false;            // probe rows with a match, each once
    bool of_table = false;        // build rows by themselves:
    bool of_table_found = false;  // those with a match, otherwise those without
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  /// If every probe row is emitted at most once: how often (0 or 1) one with a match and one without is emitted.
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
  HugePageBuffer groups_;                  // of each probe row
  std::optional<Wanted> prepared_;         // what `ends_` and `table_rows_` are valid for
  std::vector<std::uint64_t> ends_;        // where each block of probe rows ends in the result
  std::vector<std::uint32_t> table_rows_;  // build rows that follow them in the result
};

}  // namespace linkwise
