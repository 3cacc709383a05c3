// Stable sort of records by one thread, in its caches.
//
// A radix sort that uses only as many leading bits as are likely to tell the records apart. A range that is too large
// for the caches is partitioned by its most significant digit. A range that fits is sorted by as many leading bits as
// its number of records requires, in one or two passes with digits of up to 11 bits, which one reading counts; the few
// records that are still out of order are then put in order by insertion. Polychroniou and Ross (SIGMOD'14) partition
// in the same way; Obeya et al. (SPAA'19) and Axtmann et al. (IPS2Ra, 2020) do it in place.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "linkwise/primitives/host/scatter.hpp"

namespace linkwise {

template <typename Key, typename Value>
class CacheSort {
 public:
  using Of = HostRecords<Key, Value>;

  /// Sorts `records`; `spare` is as large. The result is in `spare` if `into_spare`, otherwise in `records`.
  static void sort(Of records, Of spare, std::uint64_t count, bool into_spare) {
    const Of target = into_spare ? spare : records;
    if (count <= few) {
      if (into_spare) spare.copy_from(records, count);
      insert_each(target, 1, count);
      return;
    }
    const int bits = std::bit_width(differing_bits(records.keys, count));
    if (bits > 0 && count * record_bytes > most_bytes) {
      cut(records, spare, count, bits, into_spare);
      return;
    }
    // As many bits as make it unlikely that two of so many random keys are equal in them.
    const int enough = std::min(bits, static_cast<int>(std::bit_width(count)) + spare_bits);
    const int passes = (enough + most_digit_bits - 1) / most_digit_bits;
    const int width = (enough + passes - 1) / std::max(passes, 1);
    const int rest = std::max(bits - passes * width, 0);  // lower bits, for `finish`
    Of from = records, to = spare;
    if (passes > 0) {
      auto begins = begins_of_digits(records.keys, count, rest, width, passes);
      for (int p = 0; p < passes; ++p, std::swap(from, to))
        pass(from, to, count, {rest + p * width, width}, begins[static_cast<std::size_t>(p)]);
    }
    if (from.keys != target.keys) target.copy_from(from, count);
    if (rest > 0) finish(target, into_spare ? records : spare, count, rest);
  }

  /// The bits in which any two keys differ.
  static Key differing_bits(const Key* keys, std::uint64_t count) {
    Key any = 0, all = static_cast<Key>(~Key{0});
    for (std::uint64_t i = 0; i < count; ++i) {
      any |= keys[i];
      all &= keys[i];
    }
    return any & static_cast<Key>(~all);
  }

 private:
  static constexpr std::uint64_t record_bytes = sizeof(Key) + (has_value<Value> ? sizeof(Value) : 0);
  static constexpr std::uint64_t few = 32;              // records; so few are sorted by insertion
  static constexpr std::uint64_t most_bytes = 1 << 21;  // that stay in a core's cache along with as many of `spare`
  static constexpr int spare_bits = 2;
  static constexpr int most_digit_bits = 11, most_passes = 2;  // whose counts stay in the L1 cache
  static_assert(std::bit_width(most_bytes / record_bytes) + spare_bits <= most_digit_bits * most_passes);

  struct Digit {
    int shift, width;
  };
  using Begins = std::array<std::uint32_t, std::size_t{1} << most_digit_bits>;

  // Where the records of each digit begin, after those with lesser digits, for all passes above the lowest `rest` bits.
  static std::array<Begins, most_passes> begins_of_digits(const Key* keys, std::uint64_t count, int rest, int width,
                                                          int passes) {
    std::array<Begins, most_passes> begins;
    const std::size_t digits_of_pass = std::size_t{1} << width;
    const auto mask = static_cast<Key>(digits_of_pass - 1);
    for (Begins& each : begins) std::fill_n(each.begin(), digits_of_pass, 0);
    if (passes == 1) {
      for (std::uint64_t i = 0; i < count; ++i) ++begins[0][keys[i] >> rest & mask];
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto key = static_cast<Key>(keys[i] >> rest);
        ++begins[0][key & mask];
        ++begins[1][key >> width & mask];
      }
    }
    for (Begins& each : begins) {
      std::uint32_t sum = 0;
      for (std::size_t d = 0; d < digits_of_pass; ++d) sum += std::exchange(each[d], sum);
    }
    return begins;
  }

  static void pass(Of from, Of to, std::uint64_t count, Digit digit, Begins& next) {
    const auto mask = static_cast<Key>((Key{1} << digit.width) - 1);
    for (std::uint64_t i = 0; i < count; ++i) to.copy_one(next[from.keys[i] >> digit.shift & mask]++, from, i);
  }

  // Partitions by the first digit, and then sorts each part.
  static void cut(Of records, Of spare, std::uint64_t count, int bits, bool into_spare) {
    const int shift = std::max(bits - digit_bits, 0);
    Counts begins{};
    for (std::uint64_t i = 0; i < count; ++i) ++begins[static_cast<std::size_t>(digit_of(records.keys[i], shift))];
    std::uint64_t sum = 0;
    for (std::uint64_t& each : begins) sum += std::exchange(each, sum);
    Scatter<Key, Value>::scatter(records, 0, count, shift, begins, spare);
    for (std::size_t d = 0; d < begins.size(); ++d) {
      const std::uint64_t end = d + 1 < begins.size() ? begins[d + 1] : count;
      sort(spare.at(begins[d]), records.at(begins[d]), end - begins[d], !into_spare);
    }
  }

  // Finishes records that are sorted except for their lower `bits` bits.
  static void finish(Of records, Of spare, std::uint64_t count, int bits) {
    for (std::uint64_t i = 1; i < count; ++i) {
      if (records.keys[i] >= records.keys[i - 1]) continue;
      const auto prefix = records.keys[i] >> bits;
      std::uint64_t begin = i - 1, end = i + 1;
      while (end < count && records.keys[end] >> bits == prefix) ++end;
      while (begin > 0 && records.keys[begin - 1] >> bits == prefix) --begin;
      if (end - begin <= few) insert_each(records.at(begin), i - begin, end - begin);
      else sort(records.at(begin), spare.at(begin), end - begin, false);
      i = end - 1;
    }
  }

  // Inserts each record from `first` on into the sorted ones before it.
  static void insert_each(Of records, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < count; ++i) {
      const Key key = records.keys[i];
      if (key >= records.keys[i - 1]) continue;
      [[maybe_unused]] Value value{};
      if constexpr (has_value<Value>) value = records.values[i];
      std::uint64_t at = i;
      for (; at > 0 && records.keys[at - 1] > key; --at) records.copy_one(at, records, at - 1);
      records.keys[at] = key;
      if constexpr (has_value<Value>) records.values[at] = value;
    }
  }
};

}  // namespace linkwise
