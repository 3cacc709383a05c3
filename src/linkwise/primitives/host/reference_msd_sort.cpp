#include "linkwise/primitives/host/reference_msd_sort.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/require.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t inner_digits = 48;

template <typename Value>
constexpr bool has_bytes = !std::is_same_v<Value, NoValue>;

template <typename Key>
std::vector<Key> codes_of(KeyCoding coding, const void* keys, std::uint64_t count) {
  std::vector<Key> codes(count);
  encode_on_host(coding.type, coding.descending, keys, codes.data(), count);
  return codes;
}

template <typename Key>
KeySpread spread_of(const std::vector<Key>& codes) {
  const auto [least, greatest] = std::minmax_element(codes.begin(), codes.end());
  const int shift = std::max(static_cast<int>(std::bit_width(static_cast<Key>(*least ^ *greatest))) - 4, 0);
  KeySpread spread{.in_digits = static_cast<std::uint32_t>(std::min<std::uint64_t>(codes.size(), 1 << 14))};
  for (std::uint64_t i = 0; i < spread.in_digits; ++i)
    spread.in_first_quarter += (codes[i * (codes.size() / spread.in_digits)] >> shift & 3) == 0 ? 1 : 0;
  return spread;
}

// Sorts codes, and the values with them, into native records.
template <typename Key, typename Value>
void sort_codes(KeyCoding coding, const std::vector<Key>& codes, const void* values, RawRecords result,
                RawRecords room) {
  const std::uint64_t count = codes.size();
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t row) { return codes[row]; });
  std::vector<Key> sorted(count);
  for (std::uint64_t i = 0; i < count; ++i) sorted[i] = codes[rows[i]];
  if constexpr (has_bytes<Value>) {
    const auto* const from = static_cast<const Value*>(values);
    const std::vector<Value> copied(from, from + count);
    std::fill_n(static_cast<Value*>(room.values), count, all_ones<Value>());
    for (std::uint64_t i = 0; i < count; ++i) static_cast<Value*>(result.values)[i] = copied[rows[i]];
  }
  std::fill_n(static_cast<Key*>(room.keys), count, static_cast<Key>(0xdeadbeefdeadbeefULL));
  decode_on_host(coding.type, coding.descending, sorted.data(), result.keys, count);
}

const ReferenceDigits& digits_in(const RawLeadingDigits& level) {
  return *static_cast<const ReferenceDigits*>(level.digits);
}

}  // namespace

KeySpread look_at_keys_on_host(KeyCoding coding, KeyWidth width, const void* keys, std::uint64_t count) {
  KeySpread spread;
  with_key(width, [&](auto key) { spread = spread_of(codes_of<typename decltype(key)::type>(coding, keys, count)); });
  return spread;
}

void msd_sort_on_host(KeyCoding coding, RecordType type, RawRecords input, RawRecords result, RawRecords room,
                      std::uint64_t count) {
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    sort_codes<Key, typename decltype(value)::type>(coding, codes_of<Key>(coding, input.keys, count), input.values,
                                                    result, room);
  });
}

ReferenceDigits look_at_all_keys_on_host(KeyWidth width, const RawSegments& samples, KeySpread& spread) {
  ReferenceDigits digits;
  with_key(width, [&](auto key) {
    using Key = typename decltype(key)::type;
    std::vector<Key> all;
    for (int s = 0; s < samples.count; ++s) {
      const auto* const codes = static_cast<const Key*>(samples.keys[s]);
      all.insert(all.end(), codes, codes + samples.length[s]);
    }
    spread = spread_of(all);
    const auto [least, greatest] = std::minmax_element(all.begin(), all.end());
    digits = {*least, *greatest, static_cast<std::uint64_t>(*greatest - *least) / inner_digits + 1, inner_digits + 2};
  });
  return digits;
}

LeadingDigitCounts count_leading_digits_on_host(const RawLeadingDigits& level) {
  const ReferenceDigits& digit = digits_in(level);
  LeadingDigitCounts counts;
  counts.digits = digit.digits;
  with_key(level.type.key, [&](auto key) {
    for (const std::uint64_t code :
         codes_of<typename decltype(key)::type>(level.coding, level.source.keys, level.count)) {
      counts.least = std::min(counts.least, code);
      counts.greatest = std::max(counts.greatest, code);
      ++counts.count[digit(code)];
    }
  });
  return counts;
}

void store_leading_digits_on_host(const RawLeadingDigits& level, const DigitPlaces& places,
                                  const RawDestinations& parts) {
  const ReferenceDigits& digit = digits_in(level);
  std::vector<std::uint32_t> next(places.begin, places.begin + places.digits);
  with_record(level.type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const std::vector<Key> codes = codes_of<Key>(level.coding, level.source.keys, level.count);
    for (std::uint64_t i = 0; i < level.count; ++i) {
      const std::uint64_t d = digit(codes[i]), to = next[d]++;
      const RawRecords& part = parts.records[places.part[d]];
      static_cast<Key*>(part.keys)[to] = codes[i];
      if constexpr (has_bytes<Value>)
        static_cast<Value*>(part.values)[to] = static_cast<const Value*>(level.source.values)[i];
    }
  });
}

void sort_received_digits_on_host(const RawLeadingDigits& level, const ReceivedDigits& received, RawRecords part,
                                  RawRecords room, std::uint64_t count) {
  const ReferenceDigits& digit = digits_in(level);
  with_record(level.type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    const auto* const keys = static_cast<const Key*>(part.keys);
    const std::vector<Key> codes(keys, keys + count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t d = digit(codes[i]);
      require(received.first <= d && d < received.end && received.begin[d] <= i && i < received.begin[d + 1],
              "sort_received_digits", "every record among those of its digit");
    }
    sort_codes<Key, typename decltype(value)::type>(level.coding, codes, part.values, part, room);
  });
}

}  // namespace linkwise
