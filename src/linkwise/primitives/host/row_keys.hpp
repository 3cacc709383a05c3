// The keys of rows that have several columns, or strings: sequences of bits, read word by word.
//
// A row's key is the concatenation of its columns' bits, such that unsigned comparison of the sequences is the order
// of the rows. A column contributes a null bit, if it has nulls, and its values: codes of numbers as offsets from the
// column's minimum, in the fewest bits; strings without their common prefix, up to seven bytes at a time, each time
// followed by the number of bytes, because a string comes before those that extend it. Descending columns are
// complemented bit by bit. Keys that fit into 64 bits are therefore sorted as one number. Longer keys are sorted by
// their first word; only the ties are then refined by the next one.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "linkwise/primitives/host/key_column.hpp"

namespace linkwise {

class RowKeys {
 public:
  /// How much of a key has been consumed: whole fields, and bits of the next number or bytes of the next string.
  struct Cursor {
    std::uint32_t field = 0;
    std::uint64_t taken = 0;
    friend auto operator<=>(const Cursor&, const Cursor&) = default;
  };
  /// Which bits of a key make a word.
  struct Shape {
    struct Slice {
      std::uint32_t field = 0;
      int bits = 0;             ///< that it adds to the word
      int bytes = 0;            ///< of a string
      std::uint64_t begin = 0;  ///< the first bit of the number, or byte of the string
    };
    std::array<Slice, 16> slices{};
    int count = 0;
    int bits = 0;
    Cursor behind;         ///< for keys that continue after the word
    bool is_open = false;  ///< the last slice is of strings, some of which may continue
    bool decides = false;  ///< no key continues after the word
  };

  /// @throws UsageError if there is no column, or the columns differ in length.
  explicit RowKeys(std::vector<KeyColumn> columns);

  /// Keys of some of the rows of `like`, in any order, with the same encoding; so the columns need not be scanned.
  RowKeys(std::vector<KeyColumn> columns, const RowKeys& like);
  /// For columns in consecutive parts: the keys of each part, all with the same encoding.
  static std::vector<RowKeys> of_parts(std::vector<std::vector<KeyColumn>> parts);

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] const std::vector<KeyColumn>& columns() const { return columns_; }
  [[nodiscard]] bool at_end(Cursor cursor) const { return cursor.field == fields_.size(); }
  /// The next word of at most `budget` bits, of which there must be at least 16.
  [[nodiscard]] Shape shape(Cursor from, int budget = 64) const;
  [[nodiscard]] std::uint64_t word(const Shape& shape, std::uint64_t row) const;
  /// Where the keys that have this word continue.
  [[nodiscard]] Cursor behind(const Shape& shape, std::uint64_t word) const;
  /// For rows whose keys agree up to the cursor: the cursor after the prefix that their strings share from there, or
  /// after the column if all strings are equal.
  [[nodiscard]] Cursor behind_shared(Cursor cursor, const auto* rows, std::uint64_t count) const {
    if (!is_bytes(cursor)) return cursor;
    const KeyColumn& column = columns_[fields_[cursor.field].column];
    const std::string_view like = column.bytes(rows[0]);
    std::uint64_t shared = like.size(), alike = 1;
    for (std::uint64_t i = 1; i < count && shared > cursor.taken; ++i) {
      const std::string_view bytes = column.bytes(rows[i]);
      alike += bytes == like ? 1 : 0;
      if (alike <= i) shared = shared_prefix(like.substr(0, shared), bytes, cursor.taken);
    }
    if (alike == count) return {cursor.field + 1, 0};
    return {cursor.field, std::max(cursor.taken, shared)};
  }

  /// The words of all rows; `to` holds words of `width`, which must suffice for the shape's bits.
  void words(const Shape& shape, KeyWidth width, void* to) const;

  /// Three-way comparison with row `b` of keys with columns of the same types and order: less than 0, 0 or more.
  [[nodiscard]] int compare(std::uint64_t a, const RowKeys& other, std::uint64_t b) const;
  [[nodiscard]] bool has_null(std::uint64_t row) const {
    return std::ranges::any_of(columns_, [&](const KeyColumn& column) { return column.is_null(row); });
  }
  /// For sorted rows: how many precede a row of other keys like these, or, with `or_equal`, precede or equal it.
  [[nodiscard]] std::uint64_t rows_before(const RowKeys& other, std::uint64_t row, bool or_equal) const;
  /// The positions in `rows` (of 32 or 64 bits) whose key differs from that of the position before.
  template <typename Row>
  [[nodiscard]] std::vector<std::uint64_t> starts_of_runs(const Row* rows, std::uint64_t count) const;
  /// The first row that is less than the one before it; `rows()` if there is none.
  [[nodiscard]] std::uint64_t first_descent() const;

 private:
  enum class Kind : std::uint8_t { null_bit, number, bytes };
  struct Field {
    Kind kind = Kind::number;
    std::uint32_t column = 0;
    int limb = 0;
    int bits = 0;              // of a number
    std::uint64_t base = 0;    // the least code
    std::uint64_t prefix = 0;  // bytes that all strings share
    std::uint64_t shortest = 0, longest = 0;
  };

  [[nodiscard]] bool is_bytes(Cursor cursor) const {
    return !at_end(cursor) && fields_[cursor.field].kind == Kind::bytes;
  }
  RowKeys(std::vector<KeyColumn> columns, std::vector<Field> fields);
  using Parts = std::span<const std::vector<KeyColumn>>;
  static std::vector<Field> fields_of(Parts parts);
  static void add_null_bit(std::vector<Field>& fields, Parts parts, std::uint32_t column);
  static void add_number(std::vector<Field>& fields, Parts parts, std::uint32_t column, int limb);
  static void add_bytes(std::vector<Field>& fields, Parts parts, std::uint32_t column);
  [[nodiscard]] std::uint64_t bits_of(const Shape::Slice& slice, std::uint64_t row) const;
  bool add_slice_of_bytes(Shape& shape, int budget) const;

  std::vector<KeyColumn> columns_;
  std::vector<Field> fields_;
  std::uint64_t rows_ = 0;
};

}  // namespace linkwise
