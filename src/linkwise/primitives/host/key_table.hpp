// A hash table of the keys of a relation's rows, built by all cores and shared by those that look keys up.
//
// Rows are partitioned by the leading bits of their keys' hashes. One core fills a partition's part of the table,
// which stays in its cache, so no locks are needed: the build of the parallel radix join (Balkesen et al., ICDE 2013,
// the CPU baseline of join25 §4.1.4). Lookups follow the order of the other relation's rows, not the partitions: each
// then costs one cache line from memory, which is prefetched, and the rows of the result keep an order in which
// columns are gathered faster than at random. Linear probing, half full at most; dense keys are direct indices into
// the table, without a hash.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/host/key_column.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// Keys of rows: words of 32 or 64 bits that are the keys themselves, or hashes of the keys in `columns`.
struct KeyWords {
  KeyWidth width = KeyWidth::k64;
  const void* words = nullptr;
  const std::uint8_t* valid = nullptr;  ///< a byte for each row, 0 where its key matches nothing; null: all may match
  std::uint64_t rows = 0;
  std::span<const KeyColumn> columns;  ///< what words are hashes of; empty if they are the keys
  /// Subtracted from the words, modulo their width, so that dense keys begin at 0. The same on both sides.
  std::uint64_t base = 0;

  /// Whether rows with equal words have equal keys.
  [[nodiscard]] bool same(std::uint64_t row, const KeyWords& others, std::uint64_t other) const {
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (compare(columns[c], row, others.columns[c], other) != 0) return false;
    return true;
  }
};

class KeyTable {
 public:
  static constexpr std::uint64_t most_rows = std::uint64_t{1} << 29;
  /// In place of a group: the key does not occur.
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

  /// What `keys` points to must outlive this. @throws UsageError for more rows than `most_rows`, OutOfMemoryError.
  explicit KeyTable(const KeyWords& keys);

  /// The group of each row of another side with keys of the same types, or `nowhere`.
  void find(const KeyWords& others, std::uint32_t* groups) const;

  [[nodiscard]] std::uint64_t rows() const { return keys_.rows; }

  /// Whether no key occurs twice. A group then is the number of its row, otherwise a slot of the table.
  [[nodiscard]] bool is_unique() const { return is_unique_; }
  /// One past the greatest group there may be.
  [[nodiscard]] std::uint64_t groups() const { return is_unique_ ? keys_.rows : slots_; }
  /// How many rows a group has.
  [[nodiscard]] std::uint32_t rows_of(std::uint32_t group) const { return is_unique_ ? 1 : run(group).count; }
  /// Row `i` of a group, in ascending order.
  [[nodiscard]] std::uint32_t row(std::uint32_t group, std::uint32_t i) const {
    return is_unique_ ? group : grouped_rows()[run(group).first + i];
  }

 private:
  template <typename Key>
  struct Slot;
  struct Run {
    std::uint32_t first = 0, count = 0;  // count 0: an empty slot
  };
  struct Partition {
    std::uint64_t begin = 0, mask = 0;  // of its slots
  };
  class Cut;

  template <typename Key>
  void build();
  template <typename Key>
  void build_direct(std::uint64_t range);
  template <typename Key>
  void find_direct(const KeyWords& others, std::uint32_t* groups) const;
  template <typename Key>
  void group_rows(const Cut& cut, const std::uint32_t* slot_of_row);
  template <typename Key>
  void find_each(const KeyWords& others, std::uint32_t* groups) const;
  template <typename Key>
  [[nodiscard]] Slot<Key>* slots() const {
    return reinterpret_cast<Slot<Key>*>(table_->data());
  }
  [[nodiscard]] const Run& run(std::uint32_t group) const;
  [[nodiscard]] const std::uint32_t* grouped_rows() const {
    return reinterpret_cast<const std::uint32_t*>(rows_->data());
  }

  KeyWords keys_;
  int partition_bits_ = 0;
  std::vector<Partition> partitions_;
  std::uint64_t slots_ = 0;
  std::optional<HugePageBuffer> table_, rows_;
  bool is_unique_ = true;
  bool is_direct_ = false;  // words number the slots, which have no keys; if keys are unique, only `rows_` is kept
};

}  // namespace linkwise
