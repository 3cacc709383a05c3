// How a sort is laid out: digits that are wanted, and where its state lies in the scratch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "linkwise/primitives/cuda/msd_sort/layout.cuh"

namespace linkwise::cuda::msd {

struct Extent {
  std::uint64_t count;
  Fit usual, narrow;
  std::uint32_t digits;  ///< of a bucket, at most
  bool is_stable;
  std::uint32_t pages;       ///< in the scratch, for a paged first level; 0 if it must not be paged
  std::uint32_t page_bytes;  ///< of each
};
template <typename Key, typename Value>
constexpr Fit fit_of{tile_records<Key, Value>, item_capacity<Key, Value>};

/// Digits of the first level that are wanted, and into how many a second level would cut each; 1 if there is none.
struct WantedDigits {
  std::uint32_t digits = 0, cuts = 0;
};
/// Parts of the planned average fill.
inline double parts_of(std::uint64_t count, Fit fit) {
  return static_cast<double>(count) / (planned_fill * fit.capacity);
}
/// Digits of two levels that make as many parts: of equal numbers, but for a factor to the first level's.
inline WantedDigits wanted_digits(double parts, double factor) {
  const bool is_one_level = parts <= root_digits;
  const double of_root = is_one_level ? parts : factor * std::sqrt(parts);
  const auto digits = static_cast<std::uint32_t>(std::min(std::ceil(of_root), double{root_digits}));
  return {digits, static_cast<std::uint32_t>(std::ceil(is_one_level ? 1 : parts / digits))};
}
inline WantedDigits wanted_digits(const Extent& extent) {
  // Records with values fit fewer to an item: more digits in the first level leave the second some to spare.
  return wanted_digits(parts_of(extent.count, extent.usual), extent.is_stable ? 1.2 : 1.0);
}
inline WantedDigits wanted_narrow_digits(const Extent& extent) {
  if (extent.narrow.capacity == 0) return {};
  // Narrow keys are stored in short runs of half the bytes, the shorter the more digits there are.
  return wanted_digits(parts_of(extent.count, extent.narrow), 0.75);
}

/// Digits that the root may have in all: more than are wanted if keys are uneven, and two beyond the sample's range.
inline std::uint32_t most_digits_of_root(std::uint32_t wanted) {
  return std::min(wanted + wanted / 8, std::uint32_t{root_digits}) + 2;
}

/// Pages in the scratch, one for each digit: of keys alone, if they take at most 2.5 percent of the keys' memory.
inline std::uint32_t pages_of(const Extent& extent) {
  constexpr std::uint64_t least_tiles = 7550;
  const bool is_long = extent.count >= least_tiles * extent.usual.tile;
  // For tests: must not change while a process sorts.
  const bool is_wanted = is_long || std::getenv("LINKWISE_ALWAYS_IN_PAGES") != nullptr;
  if (extent.is_stable || !is_wanted) return 0;
  return most_digits_of_root(std::max(wanted_digits(extent).digits, wanted_narrow_digits(extent).digits));
}

/// The most digits of a bucket beside pages: about twice as many as evenly distributed keys need, so that pages,
/// counters and lists take about 5 percent of the keys' memory.
inline std::uint32_t digits_beside_pages(const Extent& extent) {
  return std::max(static_cast<std::uint32_t>(2.2 * wanted_digits(extent).cuts), 256u);
}

template <typename Key, typename Value>
Extent extent_of(std::uint64_t count) {
  // With more digits, two levels suffice for more keys, but counters take more room.
  constexpr Fit usual = fit_of<Key, Value>;
  constexpr Fit narrow = can_be_narrow<Key, Value> ? fit_of<NarrowKey, NoValue> : Fit{};
  const bool has_few = count < std::uint64_t{250'000} * usual.capacity;
  const auto digits = has_bytes<Value> ? stable_digits : has_few ? usual_digits : most_digits;
  Extent extent{
      count, usual, narrow, static_cast<std::uint32_t>(digits), has_bytes<Value>, 0, usual.tile * sizeof(Key)};
  extent.pages = pages_of(extent);
  if (extent.pages > 0) extent.digits = std::min(extent.digits, digits_beside_pages(extent));
  return extent;
}

/// Lays the state out from `base` on and returns its size. Call with a null base to learn the size.
inline std::uint64_t lay_out(void* base, const Extent& extent, State& state) {
  std::uint64_t bytes = 0;
  const auto take = [&]<typename Type>(Type*& array, std::uint64_t length) {
    array = reinterpret_cast<Type*>(static_cast<std::byte*>(base) + bytes);
    bytes = (bytes + length * sizeof(Type) + 255) / 256 * 256;
  };
  // Each bucket exceeds an item's capacity, unless it comes from pages. It has at most one span more than it has whole
  // tiles, and few digits if it is short. Of narrow keys there are fewer.
  const Fit fit = extent.usual;
  const std::uint64_t buckets = extent.count / fit.capacity + 1 + extent.pages;
  const std::uint64_t spans = extent.count / fit.tile + buckets + 1;
  const std::uint64_t entries = (extent.count / fit.tile + 1 + extent.pages) * extent.digits + 20 * buckets;
  take(state.counters, 1);
  take(state.root, 1);
  for (int i = 0; i < 2; ++i) {
    take(state.buckets[i], buckets);
    take(state.spans[i], spans);
  }
  take(state.entries, entries + room_after_entries);
  take(state.range_sums, most_blocks);
  // Items begin at least half a capacity apart, except for two or three short ones of each bucket. Each level has at
  // most `buckets` buckets. The levels after the usual ones finish their own items, and reuse the list.
  const std::uint64_t items = (4 + 3 * usual_levels) * buckets + 16 + extent.count / copied_at_once;
  take(state.items, items);
  take(state.hard_items, items);
  take(state.doubtful_spans, extent.is_stable ? spans : 1);
  take(state.destinations, 1);
  std::byte* pages = nullptr;
  take(state.paged, extent.pages);
  take(pages, std::uint64_t{extent.pages} * extent.page_bytes);
  state.scratch_pages = pages;
  state.pages = extent.pages;
  state.usual = extent.usual;
  state.narrow = extent.narrow;
  state.max_digits = extent.digits;
  return bytes;
}

}  // namespace linkwise::cuda::msd
