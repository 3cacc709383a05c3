// Refines the ties that remain after rows were sorted by the first word of their keys.
//
// Groups of rows that agree in their first words are ordered by the following ones. A small group is ordered at once
// on the host, word by word, by one core. The rows of all large groups are sorted together, by whichever sort the
// caller has, as numbers with the group's number in the upper bits and the next bits of the key in the lower ones.
// Each such round takes as many key bits as the groups' numbers leave, and includes only rows whose order is still
// open.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "linkwise/primitives/host/row_keys.hpp"

namespace linkwise {

/// Usage: while (open_rows() > 0) { write_words(words); sort them stably, each with its number; place(words, order); }
class TieRefinement {
 public:
  /// `rows` (row numbers of `row_bytes`, 4 or 8) are sorted by `words`, which `shape` made of `keys`. Orders small
  /// groups of ties at once; larger ones stay open. `keys` and `rows` must outlive it.
  TieRefinement(const RowKeys& keys, const RowKeys::Shape& shape, KeyWidth width, const void* words, int row_bytes,
                void* rows);

  /// How many rows are in groups too large to be ordered on the host.
  [[nodiscard]] std::uint64_t open_rows() const { return open_rows_; }
  /// Writes the numbers by which to sort the open rows, one for each.
  void write_words(std::uint64_t* words) const;
  /// Takes the sorted numbers and, in `order`, the position of each one's open row before the sort, in `row_bytes`.
  void place(const std::uint64_t* words, const void* order);

 private:
  /// Rows whose keys agree so far: the range of their positions, and where their keys continue.
  struct Group {
    std::uint64_t begin = 0, end = 0;  // positions in `rows_`
    std::uint64_t first = 0;           // position among the open rows
    RowKeys::Cursor cursor;
  };

  template <typename Row, typename Word>
  void refine(const Word* words);
  void open(std::vector<Group> groups);
  [[nodiscard]] const RowKeys::Shape& shape_of(const Group& group) const { return shapes_.at(group.cursor); }

  const RowKeys& keys_;
  int row_bytes_;
  void* rows_;
  std::vector<Group> open_;
  std::map<RowKeys::Cursor, RowKeys::Shape> shapes_;  // shapes of the open groups' next words
  std::uint64_t open_rows_ = 0;
  int word_bits_ = 64;  // key bits of a number, below the bits of the group's number
};

}  // namespace linkwise
