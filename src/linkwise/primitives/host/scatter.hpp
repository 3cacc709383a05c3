// Scatters records to the places of their digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "linkwise/device/nontemporal_copy.hpp"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise {

inline constexpr int digit_bits = 8, digits = 1 << digit_bits;

using Counts = std::array<std::uint64_t, digits>;

template <typename Value>
constexpr bool has_value = !std::is_same_v<Value, NoValue>;

template <typename Key>
int digit_of(Key key, int shift) {
  return static_cast<int>(key >> shift) & (digits - 1);
}

/// Keys and their values, in host memory.
template <typename Key, typename Value>
struct HostRecords {
  Key* keys;
  Value* values;

  [[nodiscard]] HostRecords at(std::uint64_t first) const {
    if constexpr (has_value<Value>) return {keys + first, values + first};
    else return {keys + first, nullptr};
  }
  void copy_from(HostRecords from, std::uint64_t count) const {
    std::memcpy(keys, from.keys, count * sizeof(Key));
    if constexpr (has_value<Value>) std::memcpy(values, from.values, count * sizeof(Value));
  }
  void copy_one(std::uint64_t to, HostRecords from, std::uint64_t at) const {
    keys[to] = from.keys[at];
    if constexpr (has_value<Value>) values[to] = from.values[at];
  }
};

// Scatters the records of one part by digit. They are collected in a cache line for each digit, aligned like the line
// that they go to; a full line is written with non-temporal stores, so that memory need not be read first.
template <typename Key, typename Value>
class Scatter {
 public:
  /// Scatters records [begin, end); `next` says where in `to` each digit's records go.
  static void scatter(HostRecords<Key, Value> from, std::uint64_t begin, std::uint64_t end, int shift,
                      const Counts& next, HostRecords<Key, Value> to) {
    Scatter scatter(next, to.keys, to.values);
    for (std::uint64_t i = begin; i < end; ++i) {
      if constexpr (has_value<Value>) scatter.put(digit_of(from.keys[i], shift), from.keys[i], from.values[i]);
      else scatter.put(digit_of(from.keys[i], shift), from.keys[i], {});
    }
    scatter.flush_all();
  }

 private:
  static constexpr int line = cache_line / sizeof(Key);

  Scatter(const Counts& offsets, Key* keys, Value* values) : next_(offsets), keys_(keys), values_(values) {
    for (std::size_t d = 0; d < digits; ++d)
      first_[d] = filled_[d] = static_cast<int>(reinterpret_cast<std::uintptr_t>(keys + next_[d]) / sizeof(Key) % line);
  }

  void put(int digit, Key key, const Value& value) {
    const int at = filled_[digit]++;
    key_lines_[digit][at] = key;
    if constexpr (has_value<Value>) value_lines_[digit][at] = value;
    if (at + 1 == line) flush(digit);
  }
  void flush_all() {
    for (int d = 0; d < digits; ++d) flush(d);
    finish_streaming();
  }

  void flush(int digit) {
    const auto first = static_cast<std::size_t>(first_[digit]), end = static_cast<std::size_t>(filled_[digit]);
    write(keys_ + next_[digit], key_lines_[digit] + first, end - first);
    if constexpr (has_value<Value>) write(values_ + next_[digit], value_lines_[digit] + first, end - first);
    next_[digit] += end - first;
    first_[digit] = filled_[digit] = 0;
  }

  template <typename Element>
  static void write(Element* to, const Element* from, std::size_t length) {
    constexpr std::size_t bytes = line * sizeof(Element);
    if (bytes % cache_line == 0 && length == line && reinterpret_cast<std::uintptr_t>(to) % cache_line == 0)
      stream_lines(to, from, bytes / cache_line);
    else std::memcpy(to, from, length * sizeof(Element));
  }

  alignas(cache_line) Key key_lines_[digits][line];
  alignas(cache_line) Value value_lines_[has_value<Value> ? digits : 1][line];
  Counts next_;
  int first_[digits], filled_[digits];  // what the line holds
  Key* keys_;
  Value* values_;
};

}  // namespace linkwise
