#include "linkwise/join/materialise.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t block = 1 << 14;  // left rows whose output is added up together

// Consecutive left rows, and where their output begins.
struct Block {
  const MatchedRows* matched = nullptr;
  std::uint64_t begin = 0, end = 0;  // in matched->left
  std::uint64_t rows = 0;
};

std::uint64_t emitted_by(const MatchedRows& matched, std::uint64_t row) {
  return matched.emitted == nullptr ? matched.each : matched.emitted[row - matched.left.begin];
}

std::vector<Block> blocks_of(std::span<const MatchedRows> matched) {
  std::vector<Block> blocks;
  for (const MatchedRows& each : matched)
    for (std::uint64_t begin = each.left.begin; begin < each.left.end; begin += block)
      blocks.push_back({&each, begin, std::min(begin + block, each.left.end), 0});
#pragma omp parallel for schedule(static)
  for (std::size_t b = 0; b < blocks.size(); ++b)
    for (std::uint64_t row = blocks[b].begin; row < blocks[b].end; ++row)
      blocks[b].rows += emitted_by(*blocks[b].matched, row);
  return blocks;
}

// One value, of a width that the compiler knows where it matters; without an array, the row's number.
void write_value(void* to, std::uint64_t at, const void* from, std::uint64_t row, std::uint64_t width) {
  auto* target = static_cast<std::byte*>(to) + at * width;
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

class Writer {
 public:
  Writer(const SortedColumns& left, const SortedColumns& right, const JoinOutputs& outputs)
      : left_(left), right_(right), outputs_(outputs) {}

  // Output rows [first, last) of a left row, to position `at` on.
  void write(const MatchedRows& matched, std::uint64_t row, std::uint64_t first, std::uint64_t last,
             std::uint64_t at) const {
    const std::uint32_t found = matched.first == nullptr ? 0 : matched.first[row - matched.left.begin];
    const bool matches = matched.first == nullptr ? matched.each_matches : (found & unmatched_bit) == 0;
    const std::uint64_t right = matched.right_begin + (found & ~unmatched_bit);
    for (std::uint64_t i = first; i < last; ++i, ++at) {
      if (outputs_.keys != nullptr) write_value(outputs_.keys, at, left_.rows.keys, row, left_.key_bytes);
      if (outputs_.left_values != nullptr)
        write_value(outputs_.left_values, at, left_.rows.values, row, left_.value_bytes);
      if (outputs_.right_values == nullptr) continue;
      if (matches) write_value(outputs_.right_values, at, right_.rows.values, right + i, right_.value_bytes);
      else
        std::memset(static_cast<std::byte*>(outputs_.right_values) + at * right_.value_bytes, 0xff, right_.value_bytes);
    }
  }

 private:
  const SortedColumns& left_;
  const SortedColumns& right_;
  const JoinOutputs& outputs_;
};

}  // namespace

std::uint64_t count_rows(std::span<const MatchedRows> matched) {
  std::uint64_t rows = 0;
  for (const Block& each : blocks_of(matched))
    if (__builtin_add_overflow(rows, each.rows, &rows) ||
        rows > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw UsageError("the result has more than 2^63 rows; join by more columns, or make the keys of a side unique");
  return rows;
}

void materialise(std::span<const MatchedRows> matched, const SortedColumns& left, const SortedColumns& right,
                 const JoinOutputs& outputs) {
  const std::vector<Block> blocks = blocks_of(matched);
  std::vector<std::uint64_t> begins{0};  // of each block's output
  for (const Block& each : blocks) begins.push_back(begins.back() + each.rows);
  const std::uint64_t total = begins.back();
  const Writer writer(left, right, outputs);
#pragma omp parallel for schedule(dynamic)
  for (std::uint64_t begin = 0; begin < total; begin += block) {
    const std::uint64_t end = std::min(begin + block, total);
    auto b = static_cast<std::size_t>(std::ranges::upper_bound(begins, begin) - begins.begin()) - 1;
    for (std::uint64_t at = begins[b]; at < end; ++b)
      for (std::uint64_t row = blocks[b].begin; row < blocks[b].end && at < end; ++row) {
        const std::uint64_t rows = emitted_by(*blocks[b].matched, row);
        const std::uint64_t first = std::max(at, begin), last = std::min(at + rows, end);
        if (first < last) writer.write(*blocks[b].matched, row, first - at, last - at, first);
        at += rows;
      }
  }
}

}  // namespace linkwise
