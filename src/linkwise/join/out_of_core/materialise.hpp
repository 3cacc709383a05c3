// What the matched keys of two sorted relations stand for, written by the host's cores (join25 §3.3.2): the rows of the
// join, or the rows of each key.
//
// The result is cut into equal parts for the cores, however unevenly the keys share it. join25 writes its rows in any
// order; here they come by key, and within a key by left row and then by right row. Rows that match nothing lie between
// the matched keys, on either side.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/out_of_core/matched_keys.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {

/// A sorted relation, and how wide its values are. Without values, the rows' numbers stand for them.
struct SortedColumns {
  KeyType key_type = KeyType::u64;
  HostRun rows;
  std::uint64_t value_bytes = 0;
};

/// The rows of a join: each matched key's, and in front of them those that lie between it and the key before.
class RowWriter {
 public:
  /// @throws UsageError if they are more than 2^63 - 1.
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

/// The rows of every matched key: the values of the relations, which are integers of 4 or 8 bytes.
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
