// Write-combining buffers: what goes to a bucket is collected in cache lines before it is written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "linkwise/device/nontemporal_copy.hpp"
#include "linkwise/primitives/host/scatter.hpp"

namespace linkwise {

/// A cache line of codes, and the values that follow them.
template <typename Code, typename Value>
struct alignas(cache_line) BucketLine {
  static constexpr std::uint64_t length = cache_line / sizeof(Code);  // records

  Code codes[length];
  alignas(cache_line) Value values[length];
};
template <typename Code>
struct alignas(cache_line) BucketLine<Code, NoValue> {
  static constexpr std::uint64_t length = cache_line / sizeof(Code);

  Code codes[length];
};

/// Codes for a bucket, and the values that follow them, are collected in a line that is aligned like the codes'
/// destination. A full line is written with non-temporal stores, so that the destination need not be read first.
template <typename Code, typename Value>
class BucketLines {
 public:
  using Line = BucketLine<Code, Value>;

  /// `next`: the position in `to` of each bucket's next record. Its arrays need only be aligned to whole elements.
  BucketLines(HostRecords<Code, Value> to, std::vector<std::uint64_t> next)
      : lines_(std::make_unique<Line[]>(next.size())), first_(next.size()), next_(std::move(next)) {
    const auto ahead = reinterpret_cast<std::uintptr_t>(to.keys) % cache_line / sizeof(Code);
    codes_ = to.keys - ahead;
    if constexpr (has_value<Value>) values_ = to.values - ahead;
    for (std::size_t b = 0; b < next_.size(); ++b) first_[b] = static_cast<std::uint8_t>((next_[b] += ahead) % length);
  }

  void put(HostRecords<const Code, const Value> records, const std::uint32_t* buckets, std::uint64_t count) {
    Line* const lines = lines_.get();
    std::uint64_t* const next = next_.data();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t bucket = buckets[i];
      const std::uint64_t at = next[bucket]++;
      lines[bucket].codes[at % length] = records.keys[i];
      if constexpr (has_value<Value>) lines[bucket].values[at % length] = records.values[i];
      if (at % length == length - 1) [[unlikely]] {
        write(bucket, at - (length - 1), length);
        first_[bucket] = 0;
      }
    }
  }
  void write_rest() {
    for (std::uint32_t b = 0; b < next_.size(); ++b) {
      const std::uint64_t held = next_[b] % length;
      if (held > first_[b]) write(b, next_[b] - held, held);
    }
    finish_streaming();
  }

 private:
  static constexpr std::uint64_t length = Line::length;

  // Writes what the bucket's line holds, until `end`, to the line at `position`.
  void write(std::uint32_t bucket, std::uint64_t position, std::uint64_t end) const {
    const Line& line = lines_[bucket];
    write(line.codes, codes_ + position, first_[bucket], end);
    if constexpr (has_value<Value>) write(line.values, values_ + position, first_[bucket], end);
  }
  template <typename Element>
  static void write(const Element* line, Element* to, std::uint64_t first, std::uint64_t end) {
    constexpr std::uint64_t bytes = length * sizeof(Element);
    const bool is_whole = first == 0 && end == length && reinterpret_cast<std::uintptr_t>(to) % cache_line == 0;
    if (bytes % cache_line == 0 && is_whole) stream_lines(to, line, bytes / cache_line);
    else std::copy(line + first, line + end, to + first);
  }

  std::unique_ptr<Line[]> lines_;
  std::vector<std::uint8_t> first_;  // the first record that is present in each bucket's line
  std::vector<std::uint64_t> next_;
  Code* codes_ = nullptr;
  Value* values_ = nullptr;
};

}  // namespace linkwise
