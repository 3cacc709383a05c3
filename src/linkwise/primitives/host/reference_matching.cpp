#include "linkwise/primitives/host/reference_matching.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/matched_rows.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 16;  // elements from which several threads pay off

std::uint64_t start_of(const RawEmitting& side, const RawEmitting& other, std::uint64_t row) {
  const std::uint64_t own = side.offsets[row];
  return other.offsets == nullptr ? own : own + other.offsets[side.first[row] & ~unmatched_bit];
}

}  // namespace

std::uint64_t sum_of_integers(const void* values, IntegerType type, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t total = 0;
  const auto add = [&](const auto* integers) {
#pragma omp parallel for reduction(+ : total) num_threads(team_if(end - begin > worthwhile))
    for (std::uint64_t i = begin; i < end; ++i) total += static_cast<std::uint64_t>(integers[i]);
  };
  if (type.bytes == 8) add(static_cast<const std::uint64_t*>(values));
  else if (type.is_signed) add(static_cast<const std::int32_t*>(values));
  else add(static_cast<const std::uint32_t*>(values));
  return total;
}

void probe_on_host(const RawProbe& probe, MatchTotals* totals) {
  MatchTotals sums;
  with_key(probe.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    const auto *keys = static_cast<const Key*>(probe.keys), *build = static_cast<const Key*>(probe.build_keys);
    std::uint64_t lower = 0, upper = 0;
    for (std::uint64_t i = 0; i < probe.count; ++i) {
      if (probe.keys_rise) {
        while (lower < probe.build_count && build[lower] < keys[i]) ++lower;
        upper = std::max(upper, lower);
        while (upper < probe.build_count && build[upper] == keys[i]) ++upper;
      } else {
        const auto found = std::equal_range(build, build + probe.build_count, keys[i]);
        lower = static_cast<std::uint64_t>(found.first - build);
        upper = static_cast<std::uint64_t>(found.second - build);
      }
      note_matches(probe, i, lower, upper, sums);
    }
  });
  *totals = sums;
}

void find_ranges_on_host(const RawRangeSearch& search, RangeTotals* totals) {
  RangeTotals found;
  with_key(search.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    const std::span leading(static_cast<const Key*>(search.leading), search.leading_count);
    const std::span other(static_cast<const Key*>(search.other), search.other_count);
    // Starts with the last tile, because on a GPU any tile may come first.
    const std::uint64_t tiles = (leading.size() + keys_of_range_tile - 1) / keys_of_range_tile;
    for (std::uint64_t tile = tiles; tile-- > 0;) {
      const std::uint64_t begin = tile * keys_of_range_tile;
      const std::uint64_t end = std::min<std::uint64_t>(begin + keys_of_range_tile, leading.size());
      const std::uint64_t before = found.ranges;
      for (std::uint64_t i = begin; i < end; ++i) {
        if (i > 0 && leading[i] == leading[i - 1]) continue;
        const auto there = std::ranges::equal_range(other, leading[i]);
        if (there.empty()) continue;
        const auto here = std::ranges::equal_range(leading.subspan(i), leading[i]);
        const auto first = static_cast<std::uint32_t>(there.begin() - other.begin());
        const KeyRange range{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + here.size()), first,
                             static_cast<std::uint32_t>(first + there.size())};
        search.ranges[found.ranges++] = search.left_leads ? range : swapped(range);
        found.matches += here.size() * there.size();
      }
      search.tiles[tile] = {static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(found.ranges - before)};
    }
  });
  *totals = found;
}

void hash_probe_on_host(const RawHashProbe& probe, MatchTotals* totals) {
  MatchTotals found;
  with_key(probe.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    const auto *keys = static_cast<const Key*>(probe.keys), *build_keys = static_cast<const Key*>(probe.build_keys);
    const auto value = [](const void* values, IntegerType type, std::uint64_t i) {
      return values == nullptr ? 0 : integer_at(values, type, i);
    };
    struct Rows {
      std::uint64_t count = 0, sum = 0;
    };
    std::unordered_map<Key, Rows> table;
    for (std::uint64_t i = 0; i < probe.build_count; ++i) {
      Rows& rows = table[build_keys[i]];
      ++rows.count;
      rows.sum += value(probe.build_values, probe.build_value_type, i);
    }
    for (std::uint64_t i = 0; i < probe.count; ++i) {
      const auto rows = table.find(keys[i]);
      if (rows == table.end()) continue;
      found.matches += rows->second.count;
      found.probe_sum += rows->second.count * value(probe.values, probe.value_type, i);
      found.build_sum += rows->second.sum;
    }
  });
  *totals = found;
}

void expand_on_host(const RawEmitting& left, const RawEmitting& right, const RawWindow& window) {
  for (std::uint64_t row = 0; row < left.count; ++row) {
    const std::uint64_t start = start_of(left, right, row);
    for (std::uint64_t within = 0; within < left.offsets[row + 1] - left.offsets[row]; ++within) {
      const std::uint64_t at = start + within - window.begin;
      if (at >= window.count) continue;  // also if it precedes the window: the difference wraps around
      const std::uint32_t match = left.first[row];
      window.left[at] = static_cast<std::uint32_t>(row);
      window.right[at] = (match & unmatched_bit) != 0 ? no_position : match + static_cast<std::uint32_t>(within);
    }
  }
}

void expand_unmatched_on_host(const RawEmitting& left, const RawEmitting& right, const RawWindow& window) {
  for (std::uint64_t row = 0; row < right.count; ++row) {
    if (right.offsets[row + 1] == right.offsets[row]) continue;
    const std::uint64_t at = start_of(right, left, row) - window.begin;
    if (at >= window.count) continue;
    window.left[at] = no_position;
    window.right[at] = static_cast<std::uint32_t>(row);
  }
}

}  // namespace linkwise
