// The rest of the order, where the first words of keys leave ties.
//
// Rows come sorted by the first word of their keys. Groups that agree in it are ordered by what follows: small ones
// at once on the host, word by word, a core to a group; the rows of large ones all together, as numbers whose upper
// bits are the group's and whose lower bits are the next ones of the key, by whichever sort the caller has. Each such
// round takes as many bits of the keys as the groups' numbers leave, and only rows whose order is still open take part.
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
  /// `rows` (row numbers of `row_bytes`, 4 or 8) are sorted by `words`, which `shape` made of `keys`. Orders what it
  /// can at once; the rest is open. `keys` and `rows` must outlive it.
  TieRefinement(const RowKeys& keys, const RowKeys::Shape& shape, KeyWidth width, const void* words, int row_bytes,
                void* rows);

  /// How many rows are in groups too large to be ordered on the host.
  [[nodiscard]] std::uint64_t open_rows() const { return open_rows_; }
  /// Numbers to sort the open rows by, one for each.
  void write_words(std::uint64_t* words) const;
  /// The numbers in order and, for each, which of the open rows it belongs to, in as many bytes as rows have.
  void place(const std::uint64_t* words, const void* order);

 private:
  /// Rows that agree so far: where they are, and where their keys go on.
  struct Group {
    std::uint64_t begin = 0, end = 0;  // in rows
    std::uint64_t first = 0;           // among the open rows
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
  std::map<RowKeys::Cursor, RowKeys::Shape> shapes_;  // of the open groups' next words
  std::uint64_t open_rows_ = 0;
  int word_bits_ = 64;  // of a number, below the group's
};

}  // namespace linkwise
