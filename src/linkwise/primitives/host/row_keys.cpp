#include "linkwise/primitives/host/row_keys.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/host/positions.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t block = 1 << 14;  // rows that a core processes at once
constexpr int most_bytes = 7;             // of a string in a word: 56 bits, and 4 for their number

std::uint64_t blocks_of(std::uint64_t rows) { return (rows + block - 1) / block; }

constexpr std::uint64_t ones(int bits) { return bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits); }

int bits_for(std::uint64_t greatest) { return static_cast<int>(std::bit_width(greatest)); }

// The first `length` bytes from `begin` on as a number, the first byte the most significant; zeros past the end.
std::uint64_t leading(std::string_view bytes, std::uint64_t begin, int length) {
  if (begin >= bytes.size()) return 0;
  const std::string_view rest = bytes.substr(begin);
  std::uint64_t word = 0;
  if (rest.size() >= sizeof(word)) {
    std::memcpy(&word, rest.data(), sizeof(word));
  } else {
    const std::size_t count = std::min(rest.size(), static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < count; ++i) word |= std::uint64_t{static_cast<unsigned char>(rest[i])} << (8 * i);
  }
  return __builtin_bswap64(word) >> (64 - 8 * length);
}

}  // namespace

RowKeys::RowKeys(std::vector<KeyColumn> columns, std::vector<Field> fields)
    : columns_(std::move(columns)), fields_(std::move(fields)) {
  rows_ = columns_.front().count;
  for (const KeyColumn& column : columns_)
    if (column.count != rows_) throw UsageError("the columns of a key have not the same number of rows");
}

RowKeys::RowKeys(std::vector<KeyColumn> columns) : RowKeys(std::move(of_parts({std::move(columns)}).front())) {}

RowKeys::RowKeys(std::vector<KeyColumn> columns, const RowKeys& like) : RowKeys(std::move(columns), like.fields_) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const KeyColumn &column = columns_[c], &other = like.columns_.at(c);
    if (column.layout != other.layout || column.type != other.type)
      throw UsageError("the columns are not those of these keys");
  }
}

std::vector<RowKeys> RowKeys::of_parts(std::vector<std::vector<KeyColumn>> parts) {
  if (parts.empty() || parts.front().empty()) throw UsageError("rows are sorted by at least one column");
  const std::vector<Field> fields = fields_of(parts);
  std::vector<RowKeys> keys;
  for (std::vector<KeyColumn>& part : parts) keys.push_back(RowKeys(std::move(part), fields));
  return keys;
}

std::vector<RowKeys::Field> RowKeys::fields_of(Parts parts) {
  std::vector<Field> fields;
  const std::vector<KeyColumn>& like = parts.front();
  for (std::uint32_t c = 0; c < like.size(); ++c) {
    add_null_bit(fields, parts, c);
    for (int limb = 0; limb < like[c].limbs(); ++limb) add_number(fields, parts, c, limb);
    if (like[c].is_bytes()) add_bytes(fields, parts, c);
  }
  return fields;
}

void RowKeys::add_null_bit(std::vector<Field>& fields, Parts parts, std::uint32_t column) {
  std::uint64_t nulls = 0, rows = 0;
  for (const std::vector<KeyColumn>& part : parts) {
    const KeyColumn& of = part[column];
    rows += of.count;
    if (of.validity == nullptr) continue;
#pragma omp parallel for reduction(+ : nulls) num_threads(team_if(of.count > block))
    for (std::uint64_t row = 0; row < of.count; ++row) nulls += of.is_null(row) ? 1 : 0;
  }
  if (nulls > 0 && nulls < rows) fields.push_back({.kind = Kind::null_bit, .column = column, .bits = 1});
}

void RowKeys::add_number(std::vector<Field>& fields, Parts parts, std::uint32_t column, int limb) {
  std::uint64_t least = ~std::uint64_t{0}, greatest = 0;
  for (const std::vector<KeyColumn>& part : parts) {
    const KeyColumn& of = part[column];
#pragma omp parallel for reduction(min : least) reduction(max : greatest) num_threads(team_if(of.count > block))
    for (std::uint64_t row = 0; row < of.count; ++row) {
      if (of.is_null(row)) continue;
      const std::uint64_t code = of.code(row, limb);
      least = std::min(least, code);
      greatest = std::max(greatest, code);
    }
  }
  if (least < greatest)
    fields.push_back({.column = column, .limb = limb, .bits = bits_for(greatest - least), .base = least});
}

void RowKeys::add_bytes(std::vector<Field>& fields, Parts parts, std::uint32_t column) {
  std::vector<const KeyColumn*> of_parts;
  for (const std::vector<KeyColumn>& part : parts) of_parts.push_back(&part[column]);
  const auto [prefix, shortest, longest] = bytes_extent(of_parts);
  if (prefix < longest)
    fields.push_back(
        {.kind = Kind::bytes, .column = column, .prefix = prefix, .shortest = shortest, .longest = longest});
}

RowKeys::Shape RowKeys::shape(Cursor from, int budget) const {
  Shape shape;
  shape.behind = from;
  const auto is_full = [&] { return shape.bits == budget || shape.count == static_cast<int>(shape.slices.size()); };
  while (!at_end(shape.behind) && !shape.is_open && !is_full()) {
    const Field& field = fields_[shape.behind.field];
    if (field.kind == Kind::bytes) {
      if (!add_slice_of_bytes(shape, budget)) break;
      continue;
    }
    const int left = field.bits - static_cast<int>(shape.behind.taken), bits = std::min(left, budget - shape.bits);
    shape.slices[static_cast<std::size_t>(shape.count++)] = {shape.behind.field, bits, 0, shape.behind.taken};
    shape.bits += bits;
    if (bits == left) shape.behind = {shape.behind.field + 1, 0};
    else shape.behind.taken += static_cast<std::uint64_t>(bits);
  }
  shape.decides = at_end(shape.behind);
  return shape;
}

// As many bytes as there is room for, followed by their number unless all strings have equal lengths. Returns false
// if there is no room for any.
bool RowKeys::add_slice_of_bytes(Shape& shape, int budget) const {
  const Field& field = fields_[shape.behind.field];
  const std::uint64_t begin = std::max(shape.behind.taken, field.prefix), left = field.longest - begin;
  if (left == 0) {  // even the longest strings end here
    shape.behind = {shape.behind.field + 1, 0};
    return true;
  }
  const bool same_length = field.shortest == field.longest;
  int bytes = static_cast<int>(std::min<std::uint64_t>(left, most_bytes)), bits = 0;
  for (; bytes > 0; --bytes) {
    bits = 8 * bytes + (same_length ? 0 : bits_for(static_cast<std::uint64_t>(bytes) + 1));
    if (shape.bits + bits <= budget) break;
  }
  if (bytes == 0) return false;
  shape.slices[static_cast<std::size_t>(shape.count++)] = {shape.behind.field, bits, bytes, begin};
  shape.bits += bits;
  const bool all_end = static_cast<std::uint64_t>(bytes) == left;
  shape.is_open = !all_end && !same_length;
  shape.behind = all_end ? Cursor{shape.behind.field + 1, 0}
                         : Cursor{shape.behind.field, begin + static_cast<std::uint64_t>(bytes)};
  return true;
}

std::uint64_t RowKeys::bits_of(const Shape::Slice& slice, std::uint64_t row) const {
  const Field& field = fields_[slice.field];
  const KeyColumn& column = columns_[field.column];
  if (field.kind == Kind::null_bit) return column.is_null(row) == column.nulls_first ? 0 : 1;
  if (field.kind == Kind::number) {
    if (column.is_null(row)) return 0;
    const int below = field.bits - static_cast<int>(slice.begin) - slice.bits;
    return ((column.code(row, field.limb) - field.base) >> below) & ones(slice.bits);
  }
  const std::string_view bytes = column.bytes(row);  // empty for a null
  std::uint64_t value = leading(bytes, slice.begin, slice.bytes);
  if (const int counter = slice.bits - 8 * slice.bytes; counter > 0) {
    const std::uint64_t left = bytes.size() > slice.begin ? bytes.size() - slice.begin : 0;
    value = value << counter | std::min<std::uint64_t>(left, static_cast<std::uint64_t>(slice.bytes) + 1);
  }
  return column.descending ? value ^ ones(slice.bits) : value;
}

std::uint64_t RowKeys::word(const Shape& shape, std::uint64_t row) const {
  std::uint64_t word = 0;
  // A slice of 64 bits is the word's only one; shifting by 64 bits would be undefined.
  for (int s = 0; s < shape.count; ++s) {
    const Shape::Slice& slice = shape.slices[static_cast<std::size_t>(s)];
    word = (slice.bits == 64 ? 0 : word << slice.bits) | bits_of(slice, row);
  }
  return word;
}

RowKeys::Cursor RowKeys::behind(const Shape& shape, std::uint64_t word) const {
  if (!shape.is_open) return shape.behind;
  const Shape::Slice& last = shape.slices[static_cast<std::size_t>(shape.count) - 1];
  const int counter = last.bits - 8 * last.bytes;
  const bool descending = columns_[fields_[last.field].column].descending;
  const std::uint64_t left = (descending ? ~word : word) & ones(counter);
  return left > static_cast<std::uint64_t>(last.bytes) ? shape.behind : Cursor{last.field + 1, 0};
}

void RowKeys::words(const Shape& shape, KeyWidth width, void* to) const {
  with_key(width, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    auto* words = static_cast<Word*>(to);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(rows_ > block))
    for (std::uint64_t b = 0; b < blocks_of(rows_); ++b) {
      const std::uint64_t first = b * block, last = std::min(first + block, rows_);
      std::fill(words + first, words + last, Word{0});
      for (int s = 0; s < shape.count; ++s) {  // slice by slice: the inner loop then reads a single column
        const Shape::Slice& slice = shape.slices[static_cast<std::size_t>(s)];
        const int shift = static_cast<std::size_t>(slice.bits) == 8 * sizeof(Word) ? 0 : slice.bits;  // only slice
        for (std::uint64_t row = first; row < last; ++row)
          words[row] = static_cast<Word>(words[row] << shift) | static_cast<Word>(bits_of(slice, row));
      }
    }
  });
}

int RowKeys::compare(std::uint64_t a, const RowKeys& other, std::uint64_t b) const {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const int order = linkwise::compare(columns_[c], a, other.columns_[c], b);
    if (order != 0) return order;
  }
  return 0;
}

template <typename Row>
std::vector<std::uint64_t> RowKeys::starts_of_runs(const Row* rows, std::uint64_t count) const {
  return positions_where(count, [&](std::uint64_t i) { return i == 0 || compare(rows[i], *this, rows[i - 1]) != 0; });
}
template std::vector<std::uint64_t> RowKeys::starts_of_runs(const std::uint32_t*, std::uint64_t) const;
template std::vector<std::uint64_t> RowKeys::starts_of_runs(const std::uint64_t*, std::uint64_t) const;

std::uint64_t RowKeys::rows_before(const RowKeys& other, std::uint64_t row, bool or_equal) const {
  std::uint64_t low = 0, high = rows_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (compare(middle, other, row) < (or_equal ? 1 : 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

std::uint64_t RowKeys::first_descent() const {
  std::atomic<std::uint64_t> found = rows_;
#pragma omp parallel for schedule(dynamic) num_threads(team_if(rows_ > block))
  for (std::uint64_t b = 0; b < blocks_of(rows_); ++b) {
    if (b * block > found) continue;
    const std::uint64_t last = std::min((b + 1) * block, rows_);
    for (std::uint64_t row = std::max<std::uint64_t>(b * block, 1); row < last; ++row) {
      if (compare(row, *this, row - 1) >= 0) continue;
      std::uint64_t known = found;
      while (row < known && !found.compare_exchange_weak(known, row)) {
      }
      break;
    }
  }
  return found;
}

}  // namespace linkwise
