#include "linkwise/primitives/host/parallel_sort.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <parallel/algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "linkwise/device/nontemporal_copy.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr int digit_bits = 8, digits = 1 << digit_bits;
constexpr std::uint64_t worthwhile = 1 << 18;  // records that pay for waking the other cores

using Counts = std::array<std::uint64_t, digits>;

template <typename Value>
constexpr bool has_value = !std::is_same_v<Value, NoValue>;

// The records of one part on their way to their digits. They gather in a cache line for each digit, which lines up with
// the line where they go; a full one is written around the caches, so that memory need not be read first.
template <typename Key, typename Value>
class Scatter {
 public:
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

 private:
  static constexpr int line = cache_line / sizeof(Key);

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

template <typename Key>
int digit_of(Key key, int shift) {
  return static_cast<int>(key >> shift) & (digits - 1);
}

// One pass, from → to. The team's threads each own a part.
template <typename Key, typename Value>
void pass(const Key* keys, const Value* values, Key* to_keys, Value* to_values, std::uint64_t count, int shift) {
  const int most_threads = team_if(count >= worthwhile);
  std::vector<Counts> of_thread(static_cast<std::size_t>(most_threads), Counts{});
#pragma omp parallel num_threads(most_threads)
  {
    const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
               threads = static_cast<std::uint64_t>(omp_get_num_threads());
    const std::uint64_t begin = count * t / threads, end = count * (t + 1) / threads;
    Counts& mine = of_thread[t];
    for (std::uint64_t i = begin; i < end; ++i) ++mine[static_cast<std::size_t>(digit_of(keys[i], shift))];
#pragma omp barrier
#pragma omp single
    {
      std::uint64_t sum = 0;
      for (std::size_t d = 0; d < digits; ++d)
        for (Counts& counts : of_thread) sum += std::exchange(counts[d], sum);
    }
    Scatter<Key, Value> scatter(mine, to_keys, to_values);
    for (std::uint64_t i = begin; i < end; ++i) {
      if constexpr (has_value<Value>) scatter.put(digit_of(keys[i], shift), keys[i], values[i]);
      else scatter.put(digit_of(keys[i], shift), keys[i], {});
    }
    scatter.flush_all();
  }
}

// The bits in which any two keys differ.
template <typename Key>
Key differing_bits(const Key* keys, std::uint64_t count) {
  Key any = 0, all = static_cast<Key>(~Key{0});
#pragma omp parallel for reduction(| : any) reduction(& : all) num_threads(team_if(count >= worthwhile))
  for (std::uint64_t i = 0; i < count; ++i) {
    any |= keys[i];
    all &= keys[i];
  }
  return any & static_cast<Key>(~all);
}

}  // namespace

bool radix_sort_on_host(RecordType type, RawRecords records, RawRecords spare, std::uint64_t count) {
  bool in_spare = false;
  if (count < 2) return in_spare;
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    auto *keys = static_cast<Key*>(records.keys), *to_keys = static_cast<Key*>(spare.keys);
    auto *values = static_cast<Value*>(records.values), *to_values = static_cast<Value*>(spare.values);
    const Key differing = differing_bits(keys, count);
    for (int shift = 0; shift < type.key_bits(); shift += digit_bits) {
      if (digit_of(differing, shift) == 0) continue;
      pass(keys, values, to_keys, to_values, count, shift);
      std::swap(keys, to_keys);
      std::swap(values, to_values);
      in_spare = !in_spare;
    }
  });
  return in_spare;
}

void comparison_sort_on_host(RecordType type, RawRecords records, std::uint64_t count) {
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    auto* keys = static_cast<Key*>(records.keys);
    const auto threads = static_cast<__gnu_parallel::_ThreadIndex>(team());
    if constexpr (!has_value<Value>) {
      __gnu_parallel::sort(keys, keys + count, __gnu_parallel::multiway_mergesort_tag(threads));
    } else {
      struct Record {
        Key key;
        Value value;
      };
      auto* values = static_cast<Value*>(records.values);
      std::vector<Record> packed(count);
#pragma omp parallel for num_threads(team_if(count >= worthwhile))
      for (std::uint64_t i = 0; i < count; ++i) packed[i] = {keys[i], values[i]};
      __gnu_parallel::stable_sort(
          packed.begin(), packed.end(), [](const Record& a, const Record& b) { return a.key < b.key; },
          __gnu_parallel::multiway_mergesort_tag(threads));
#pragma omp parallel for num_threads(team_if(count >= worthwhile))
      for (std::uint64_t i = 0; i < count; ++i) {
        keys[i] = packed[i].key;
        values[i] = packed[i].value;
      }
    }
  });
}

std::uint64_t checksum_on_host(RecordType type, RawRecords records, std::uint64_t count) {
  std::uint64_t sum = 0;
  with_record(type, [&](auto key, auto value) {
    using Value = typename decltype(value)::type;
    const auto* keys = static_cast<const typename decltype(key)::type*>(records.keys);
    [[maybe_unused]] const auto* values = static_cast<const Value*>(records.values);
#pragma omp parallel for reduction(+ : sum) num_threads(team_if(count >= worthwhile))
    for (std::uint64_t i = 0; i < count; ++i) {
      if constexpr (has_value<Value>) sum += record_hash(keys[i], values[i]);
      else sum += record_hash(keys[i], NoValue{});
    }
  });
  return sum;
}

std::uint64_t violations_on_host(KeyWidth width, const void* keys, std::uint64_t count) {
  std::uint64_t violations = 0;
  with_key(width, [&](auto key) {
    const auto* data = static_cast<const typename decltype(key)::type*>(keys);
#pragma omp parallel for reduction(+ : violations) num_threads(team_if(count >= worthwhile))
    for (std::uint64_t i = 1; i < count; ++i) violations += data[i] < data[i - 1] ? 1 : 0;
  });
  return violations;
}

}  // namespace linkwise
