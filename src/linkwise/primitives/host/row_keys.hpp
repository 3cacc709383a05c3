// The keys of rows that have several columns, or strings: sequences of bits, taken word by word.
//
// A row's key is the bits of its columns one behind the other, so that unsigned comparison of the sequences is the
// order of the rows. Of a column come: a bit for null where there are some; a number's code less the least of the
// column, in as many bits as its greatest needs; strings without the prefix that all share, up to seven bytes at a
// time, each time followed by how many there were, for a string comes before those that it begins. Descending columns
// are turned round bit by bit. What fits into 64 bits is therefore sorted as one number. Of longer keys the first word
// is sorted, and only rows that agree in it need their next one.
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
  /// How much of a key has been taken: whole fields, and bits of the next number or bytes of the next string.
  struct Cursor {
    std::uint32_t field = 0;
    std::uint64_t taken = 0;
    friend auto operator<=>(const Cursor&, const Cursor&) = default;
  };
  /// Which bits make a word.
  struct Shape {
    struct Slice {
      std::uint32_t field = 0;
      int bits = 0;             ///< that it gives to the word
      int bytes = 0;            ///< of a string
      std::uint64_t begin = 0;  ///< the first bit of the number, or byte of the string
    };
    std::array<Slice, 16> slices{};
    int count = 0;
    int bits = 0;
    Cursor behind;         ///< for keys that go on behind the word
    bool is_open = false;  ///< the last slice is of strings, some of which may go on
    bool decides = false;  ///< no key goes on behind it
  };

  /// @throws UsageError if there is no column, or the columns differ in length.
  explicit RowKeys(std::vector<KeyColumn> columns);

  /// Keys that are made as those others are, without looking at all of them: of some of their rows, in any order.
  RowKeys(std::vector<KeyColumn> columns, const RowKeys& like);
  /// Of columns that lie in parts, one behind the other: the keys of each part, all made alike.
  static std::vector<RowKeys> of_parts(std::vector<std::vector<KeyColumn>> parts);

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] const std::vector<KeyColumn>& columns() const { return columns_; }
  [[nodiscard]] bool at_end(Cursor cursor) const { return cursor.field == fields_.size(); }
  /// The next word of at most `budget` bits, of which there must be at least 16.
  [[nodiscard]] Shape shape(Cursor from, int budget = 64) const;
  [[nodiscard]] std::uint64_t word(const Shape& shape, std::uint64_t row) const;
  /// Where the keys that have this word go on.
  [[nodiscard]] Cursor behind(const Shape& shape, std::uint64_t word) const;
  /// Where the keys of these rows, which agree up to the cursor, go on behind what strings share from there: behind the
  /// column, where all are equal.
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

  /// The words of all rows; `to` holds 32-bit words if they have no more bits, otherwise 64-bit ones.
  void words(const Shape& shape, KeyWidth width, void* to) const;

  /// How row `a` stands to row `b` of keys with columns of the same types and order: less than 0, 0 or more.
  [[nodiscard]] int compare(std::uint64_t a, const RowKeys& other, std::uint64_t b) const;
  [[nodiscard]] bool has_null(std::uint64_t row) const {
    return std::ranges::any_of(columns_, [&](const KeyColumn& column) { return column.is_null(row); });
  }
  /// Of sorted rows, how many are before a row of other keys like these, or equal to it.
  [[nodiscard]] std::uint64_t rows_before(const RowKeys& other, std::uint64_t row, bool or_equal) const;
  /// The positions in `rows` (of 32 or 64 bits) whose key is another than that of the position before.
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
  static std::uint64_t shared_prefix(std::string_view a, std::string_view b, std::uint64_t from);
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
