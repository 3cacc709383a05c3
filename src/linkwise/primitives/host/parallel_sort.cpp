#include "linkwise/primitives/host/parallel_sort.hpp"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/cache_sort.hpp"
#include "linkwise/primitives/host/partition.hpp"
#include "linkwise/primitives/host/record_hashes.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 18;  // records from which several threads pay off
constexpr std::uint64_t block = 1 << 14;       // records that a thread takes at a time

// One pass, from → to; returns where the records of each digit begin. Each thread of the team has a consecutive part.
template <typename Key, typename Value>
Counts pass(HostRecords<Key, Value> from, HostRecords<Key, Value> to, std::uint64_t count, int shift) {
  const int most_threads = team_if(count >= worthwhile);
  std::vector<Counts> of_thread(static_cast<std::size_t>(most_threads), Counts{});
  Counts begins{};
#pragma omp parallel num_threads(most_threads)
  {
    const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
               threads = static_cast<std::uint64_t>(omp_get_num_threads());
    const std::uint64_t begin = count * t / threads, end = count * (t + 1) / threads;
    Counts& mine = of_thread[t];
    for (std::uint64_t i = begin; i < end; ++i) ++mine[static_cast<std::size_t>(digit_of(from.keys[i], shift))];
#pragma omp barrier
#pragma omp single
    {
      std::uint64_t sum = 0;
      for (std::size_t d = 0; d < digits; ++d) {
        begins[d] = sum;
        for (Counts& counts : of_thread) sum += std::exchange(counts[d], sum);
      }
    }
    Scatter<Key, Value>::scatter(from, begin, end, shift, mine, to);
  }
  return begins;
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

// Partitions by the first digit that differs, with all cores. Then each core sorts whole digits by itself; digits
// with so many records that the other cores would wait are sorted by all of them together.
template <typename Key, typename Value>
bool sort_by_first_digit(HostRecords<Key, Value> records, HostRecords<Key, Value> spare, std::uint64_t count) {
  if (count < worthwhile) {
    CacheSort<Key, Value>::sort(records, spare, count, false);
    return false;
  }
  const int bits = std::bit_width(differing_bits(records.keys, count));
  if (bits == 0) return false;
  const Counts begins = pass(records, spare, count, std::max(bits - digit_bits, 0));
  if (bits <= digit_bits) return true;
  const std::uint64_t large = std::max(worthwhile, count / (2 * static_cast<std::uint64_t>(team())));
  const auto count_of = [&](std::size_t d) { return (d + 1 < digits ? begins[d + 1] : count) - begins[d]; };
#pragma omp parallel for schedule(dynamic) num_threads(team())
  for (std::size_t d = 0; d < digits; ++d)
    if (count_of(d) <= large)
      CacheSort<Key, Value>::sort(spare.at(begins[d]), records.at(begins[d]), count_of(d), false);
  for (std::size_t d = 0; d < digits; ++d) {
    const HostRecords<Key, Value> here = spare.at(begins[d]), there = records.at(begins[d]);
    if (count_of(d) > large && sort_by_first_digit(here, there, count_of(d))) here.copy_from(there, count_of(d));
  }
  return true;
}

}  // namespace

bool radix_sort_on_host(RecordType type, RawRecords records, RawRecords spare, std::uint64_t count) {
  bool in_spare = false;
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const auto of = [](RawRecords raw) {
      return HostRecords<Key, Value>{static_cast<Key*>(raw.keys), static_cast<Value*>(raw.values)};
    };
    in_spare = sort_by_first_digit(of(records), of(spare), count);
  });
  return in_spare;
}

std::array<std::uint64_t, host_partitions + 1> partition_on_host(RecordType type, RawRecords from, RawRecords to,
                                                                 std::uint64_t count) {
  std::array<std::uint64_t, host_partitions + 1> begins{};
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const Counts counted =
        pass(HostRecords<Key, Value>{static_cast<Key*>(from.keys), static_cast<Value*>(from.values)},
             HostRecords<Key, Value>{static_cast<Key*>(to.keys), static_cast<Value*>(to.values)}, count,
             /*shift=*/0);
    std::ranges::copy(counted, begins.begin());
  });
  begins[host_partitions] = count;
  return begins;
}

std::uint64_t checksum_on_host(RecordType type, RawRecords records, std::uint64_t count) {
  std::uint64_t sum = 0;
  with_record(type, [&](auto key, auto value) {
    using Value = typename decltype(value)::type;
    using Key = typename decltype(key)::type;
    const HostRecords<const Key, const Value> all{static_cast<const Key*>(records.keys),
                                                  static_cast<const Value*>(records.values)};
#pragma omp parallel for reduction(+ : sum) num_threads(team_if(count >= worthwhile))
    for (std::uint64_t begin = 0; begin < count; begin += block)
      sum += RecordHashes<Key, Value>::sum(all.at(begin), std::min(block, count - begin));
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
