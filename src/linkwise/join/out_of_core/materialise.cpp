#include "linkwise/join/out_of_core/materialise.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t too_many = std::numeric_limits<std::uint64_t>::max();

// Saturating arithmetic on row counts: an overflow is detected when they are added up.
std::uint64_t product(std::uint64_t a, std::uint64_t b) { return __builtin_mul_overflow(a, b, &a) ? too_many : a; }
std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return __builtin_add_overflow(a, b, &a) ? too_many : a; }

// Writes one element, with widths of 4 and 8 bytes known to the compiler. Without a source array, writes the row
// number; for `no_row`, sets all bits.
constexpr std::uint64_t no_row = std::numeric_limits<std::uint64_t>::max();
void write_element(void* to, std::uint64_t at, const void* from, std::uint64_t row, std::uint64_t width) {
  auto* target = static_cast<std::byte*>(to) + at * width;
  if (row == no_row) {
    std::memset(target, 0xff, width);
    return;
  }
  if (from == nullptr) {
    const std::uint64_t number[] = {row, 0};
    std::memcpy(target, number, width);
    return;
  }
  const auto* source = static_cast<const std::byte*>(from) + row * width;
  if (width == 8) std::memcpy(target, source, 8);
  else if (width == 4) std::memcpy(target, source, 4);
  else std::memcpy(target, source, width);
}

}  // namespace

RowWriter::RowWriter(KeyBlocks blocks, JoinKind kind, const SortedColumns& left, const SortedColumns& right)
    : blocks_(std::move(blocks)),
      emission_(emission_of_left(kind)),
      right_emits_(right_emits(kind)),
      left_(left),
      right_(right) {
  // A sentinel key without rows at the end, which the unmatched rows after the last key precede.
  const RunRange left_end{left.rows.count, left.rows.count}, right_end{right.rows.count, right.rows.count};
  blocks_.emplace_back(MatchedKey{left_end, right_end});
  rows_before_ = running_sums_of(blocks_, [&](std::size_t b) {
    std::uint64_t rows = 0;
    for_each_stretch(b, [&](const MatchedKey& alone, const MatchedKey& key) {
      rows = sum(rows, sum(rows_of_alone(alone), rows_of_key(key)));
      return true;
    });
    return rows;
  });
}

void RowWriter::write(const JoinOutputs& to) const {
  in_equal_parts(rows_before_, [&](std::size_t first_block, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t at = rows_before_[first_block];
    // Of the next `rows` rows of the result, writes those that lie in [begin, end).
    const auto clip = [&](std::uint64_t rows, const auto& write_some) {
      const std::uint64_t from = std::max(at, begin), until = std::min(at + rows, end);
      if (from < until) write_some(from - at, until - at, from);
      at += rows;
    };
    for (std::size_t b = first_block; at < end; ++b)
      for_each_stretch(b, [&](const MatchedKey& alone, const MatchedKey& key) {
        clip(rows_of_alone(alone), [&](std::uint64_t from, std::uint64_t until, std::uint64_t position) {
          write_alone(alone, from, until, position, to);
        });
        clip(rows_of_key(key), [&](std::uint64_t from, std::uint64_t until, std::uint64_t position) {
          write_key(key, from, until, position, to);
        });
        return at < end;
      });
  });
}

// Calls body(unmatched rows, the key after them) for each key of a block, until it returns false.
template <typename Body>
void RowWriter::for_each_stretch(std::size_t block, const Body& body) const {
  MatchedKey before = block == 0 ? MatchedKey() : blocks_[block - 1].last();
  for (std::uint64_t k = 0; k < blocks_[block].size(); ++k) {
    const MatchedKey key = blocks_[block][k];
    if (!body({{before.left.end, key.left.begin}, {before.right.end, key.right.begin}}, key)) return;
    before = key;
  }
}

std::uint64_t RowWriter::rows_of_key(const MatchedKey& key) const {
  return product(key.left.count(), rows_emitted(emission_, key.right.count()));
}
std::uint64_t RowWriter::lefts_of_alone(const MatchedKey& alone) const {
  return rows_emitted(emission_, 0) * alone.left.count();
}
std::uint64_t RowWriter::rows_of_alone(const MatchedKey& alone) const {
  return lefts_of_alone(alone) + (right_emits_ ? alone.right.count() : 0);
}

void RowWriter::write_row(const JoinOutputs& to, std::uint64_t at, std::uint64_t left, std::uint64_t right) const {
  const SortedColumns& shown = left == no_row ? right_ : left_;
  const auto key_bytes = static_cast<std::uint64_t>(native_bytes(shown.key_type));
  if (to.keys != nullptr) write_element(to.keys, at, shown.rows.keys, left == no_row ? right : left, key_bytes);
  if (to.left_values != nullptr) write_element(to.left_values, at, left_.rows.values, left, left_.value_bytes);
  if (to.right_values != nullptr) write_element(to.right_values, at, right_.rows.values, right, right_.value_bytes);
}

// Writes rows [first, last) of a key's result rows, from position `at` on.
void RowWriter::write_key(const MatchedKey& key, std::uint64_t first, std::uint64_t last, std::uint64_t at,
                          const JoinOutputs& to) const {
  const std::uint64_t each = rows_emitted(emission_, key.right.count());
  std::uint64_t left = key.left.begin + first / each, right = key.right.begin + first % each;
  for (; first < last; ++first, ++at) {
    write_row(to, at, left, right);
    if (++right < key.right.begin + each) continue;
    right = key.right.begin;
    ++left;
  }
}

// Likewise for unmatched rows: those of both sides, merged by key. No key occurs on both sides.
void RowWriter::write_alone(const MatchedKey& alone, std::uint64_t first, std::uint64_t last, std::uint64_t at,
                            const JoinOutputs& to) const {
  const std::uint64_t lefts = lefts_of_alone(alone), rights = rows_of_alone(alone) - lefts;
  const auto left_is_next = [&](std::uint64_t l, std::uint64_t r) {
    return joined_code_at(left_.rows.keys, left_.key_type, alone.left.begin + l) <
           joined_code_at(right_.rows.keys, right_.key_type, alone.right.begin + r);
  };
  // How many of the first `first` rows are left rows: where the merge path crosses that diagonal.
  std::uint64_t low = first > rights ? first - rights : 0, high = std::min(first, lefts);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (left_is_next(middle, first - middle - 1)) low = middle + 1;
    else high = middle;
  }
  for (std::uint64_t l = low, r = first - low; l + r < last; ++at) {
    const bool is_left = l < lefts && (r == rights || left_is_next(l, r));
    if (is_left) write_row(to, at, alone.left.begin + l++, no_row);
    else write_row(to, at, no_row, alone.right.begin + r++);
  }
}

RangeWriter::RangeWriter(KeyBlocks blocks, const SortedColumns& left, const SortedColumns& right)
    : blocks_(std::move(blocks)),
      left_(left),
      right_(right),
      keys_before_(running_sums_of(blocks_, [&](std::size_t b) { return blocks_[b].size(); })),
      lefts_before_(blocks_.size() + 1),
      rights_before_(blocks_.size() + 1) {
#pragma omp parallel for schedule(dynamic, 16) num_threads(team())
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    for (std::uint64_t k = 0; k < blocks_[b].size(); ++k) {
      lefts_before_[b + 1] += blocks_[b][k].left.count();
      rights_before_[b + 1] += blocks_[b][k].right.count();
    }
  add_up(lefts_before_);
  add_up(rights_before_);
}

void RangeWriter::write(const RangeArrays& to) const {
  write_side(&MatchedKey::left, left_, lefts_before_, to.left_first, to.left_rows);
  write_side(&MatchedKey::right, right_, rights_before_, to.right_first, to.right_rows);
}

// Where each key's rows begin, and the rows.
void RangeWriter::write_side(RunRange MatchedKey::* side, const SortedColumns& columns,
                             const std::vector<std::uint64_t>& rows_before, std::int64_t* first,
                             std::int64_t* rows) const {
  const auto row_at = [&](std::uint64_t at) {
    if (columns.rows.values == nullptr) return static_cast<std::int64_t>(at);
    return columns.value_bytes == 4
               ? static_cast<std::int64_t>(static_cast<const std::uint32_t*>(columns.rows.values)[at])
               : static_cast<const std::int64_t*>(columns.rows.values)[at];
  };
#pragma omp parallel for schedule(dynamic, 16) num_threads(team())
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    std::uint64_t at = rows_before[b];
    for (std::uint64_t k = 0; k < blocks_[b].size(); ++k) {
      first[keys_before_[b] + k] = static_cast<std::int64_t>(at);
      at += (blocks_[b][k].*side).count();
    }
  }
  first[keys_before_.back()] = static_cast<std::int64_t>(rows_before.back());
  in_equal_parts(rows_before, [&](std::size_t b, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t at = rows_before[b];
    for (; at < end; ++b)
      for (std::uint64_t k = 0; k < blocks_[b].size() && at < end; ++k) {
        const RunRange range = blocks_[b][k].*side;
        for (std::uint64_t i = std::max(at, begin); i < std::min(at + range.count(), end); ++i)
          rows[i] = row_at(range.begin + (i - at));
        at += range.count();
      }
  });
}

}  // namespace linkwise
