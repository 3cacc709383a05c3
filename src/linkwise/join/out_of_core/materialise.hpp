// Materialises the matched keys of two sorted relations on the CPU cores (join25 §3.3.2): as the rows of the join, or
// as the rows of each key.
//
// The result is divided into equal parts for the cores, whatever the key skew. join25 writes its rows in any order;
// here they are ordered by key, left row and right row. The unmatched rows of either relation lie between its matched
// keys.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/out_of_core/matched_keys.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {

/// A sorted relation, and the width of its values. Row numbers replace missing values.
struct SortedColumns {
  KeyType key_type = KeyType::u64;
  HostRun rows;
  std::uint64_t value_bytes = 0;
};

/// Writes the rows of a join: those of each matched key, preceded by the unmatched rows between it and the key
/// before.
class RowWriter {
 public:
  /// @throws UsageError if there are more than 2^63 - 1 rows.
  RowWriter(KeyBlocks blocks, JoinKind kind, const SortedColumns& left, const SortedColumns& right);
  [[nodiscard]] std::uint64_t rows() const { return rows_before_.back(); }
  void write(const JoinOutputs& to) const;

 private:
  template <typename Body>
  void for_each_stretch(std::size_t block, const Body& body) const;
  [[nodiscard]] std::uint64_t rows_of_key(const MatchedKey& key) const;
  [[nodiscard]] std::uint64_t lefts_of_alone(const MatchedKey& alone) const;
  [[nodiscard]] std::uint64_t rows_of_alone(const MatchedKey& alone) const;
  void write_row(const JoinOutputs& to, std::uint64_t at, std::uint64_t left, std::uint64_t right) const;
  void write_key(const MatchedKey& key, std::uint64_t first, std::uint64_t last, std::uint64_t at,
                 const JoinOutputs& to) const;
  void write_alone(const MatchedKey& alone, std::uint64_t first, std::uint64_t last, std::uint64_t at,
                   const JoinOutputs& to) const;

  KeyBlocks blocks_;
  Emission emission_;
  bool right_emits_;
  SortedColumns left_, right_;
  std::vector<std::uint64_t> rows_before_;  // of each block
};

/// Writes the rows of every matched key as ranges of values, which are integers of 4 or 8 bytes.
class RangeWriter {
 public:
  RangeWriter(KeyBlocks blocks, const SortedColumns& left, const SortedColumns& right);
  [[nodiscard]] RangeSizes sizes() const { return {keys_before_.back(), lefts_before_.back(), rights_before_.back()}; }
  void write(const RangeArrays& to) const;

 private:
  void write_side(RunRange MatchedKey::* side, const SortedColumns& columns,
                  const std::vector<std::uint64_t>& rows_before, std::int64_t* first, std::int64_t* rows) const;

  KeyBlocks blocks_;
  SortedColumns left_, right_;
  std::vector<std::uint64_t> keys_before_, lefts_before_, rights_before_;  // of each block
};

}  // namespace linkwise
