// The primitives on the CPU, for virtual devices: plain loops that serve as a reference for the CUDA kernels.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/host/reference_hash_join.hpp"
#include "linkwise/primitives/host/reference_join_table.hpp"
#include "linkwise/primitives/host/reference_matching.hpp"
#include "linkwise/primitives/host/reference_msd_sort.hpp"
#include "linkwise/primitives/integers.hpp"
#include "linkwise/primitives/kernels.hpp"
#include "linkwise/primitives/matched_rows.hpp"
#include "linkwise/primitives/segments.hpp"
#include "linkwise/primitives/virtual/virtual_gathers.hpp"

namespace linkwise {
namespace {

template <typename Value>
constexpr bool has_value = !std::is_same_v<Value, NoValue>;

template <typename Key, typename Value>
struct TypedRecords {
  Key* keys;
  Value* values;

  TypedRecords(RawRecords raw) : keys(static_cast<Key*>(raw.keys)), values(static_cast<Value*>(raw.values)) {}

  void move_from(const TypedRecords& other, std::uint64_t to, std::uint64_t from) const {
    keys[to] = other.keys[from];
    if constexpr (has_value<Value>) values[to] = other.values[from];
  }
};

class VirtualKernels final : public VirtualGathers {
 public:
  void load() const override {}

  // CUB needs about one table of digit counts per tile; this is an upper bound of the sizes observed.
  std::uint64_t sort_scratch_bytes(RecordType, std::uint64_t count) const override {
    return (1 << 20) + std::min<std::uint64_t>(count, 1ULL << 28) / 4;
  }

  bool sort_lands_in_secondary(RecordType, std::uint64_t, BitRange bits) const override {
    return (bits.end - bits.begin + 7) / 8 % 2 == 1;
  }

  // Least significant digit first, eight bits at a time.
  void sort(void*, RecordType type, RawRecords primary, RawRecords secondary, std::uint64_t count, BitRange bits, void*,
            std::uint64_t) const override {
    with_record(type, [&](auto key, auto value) {
      using Key = typename decltype(key)::type;
      using Value = typename decltype(value)::type;
      TypedRecords<Key, Value> from(primary), to(secondary);
      for (int begin = bits.begin; begin < bits.end; begin += 8) {
        const Key mask = static_cast<Key>((Key{1} << std::min(8, bits.end - begin)) - 1);
        std::array<std::uint64_t, 256> next{};
        for (std::uint64_t i = 0; i < count; ++i) ++next[from.keys[i] >> begin & mask];
        std::uint64_t sum = 0;
        for (std::uint64_t& n : next) sum += std::exchange(n, sum);
        for (std::uint64_t i = 0; i < count; ++i) to.move_from(from, next[from.keys[i] >> begin & mask]++, i);
        std::swap(from, to);
      }
    });
  }

  std::uint64_t msd_sort_scratch_bytes(RecordType, std::uint64_t count) const override { return (1 << 17) + count / 4; }
  // On CUDA, the threshold is higher.
  std::uint64_t fewest_for_msd_sort(RecordType) const override { return 1000; }
  void look_at_keys(void*, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count, SortBuffers,
                    ExpectedKeys, void*, KeySpread* spread) const override {
    *spread = look_at_keys_on_host(coding, type.key, input.keys, count);
  }
  void msd_sort(void*, KeyCoding coding, RecordType type, RawRecords input, RawRecords result, RawRecords room,
                std::uint64_t count, ExpectedKeys, void*, std::uint64_t* sum) const override {
    if (sum != nullptr) checksum(nullptr, type, input, count, sum);
    msd_sort_on_host(coding, type, input, result, room, count);
  }

  std::uint64_t leading_digits_bytes() const override { return sizeof(ReferenceDigits); }
  std::uint64_t leading_digits_scratch_bytes(RecordType type, std::uint64_t count) const override {
    return msd_sort_scratch_bytes(type, count);
  }
  void look_at_all_keys(void*, const RawLeadingDigits& level, const RawSegments& samples, std::uint64_t,
                        KeySpread* spread) const override {
    *static_cast<ReferenceDigits*>(level.digits) = look_at_all_keys_on_host(level.type.key, samples, *spread);
  }
  void count_leading_digits(void*, const RawLeadingDigits& level, LeadingDigitCounts* counts) const override {
    *counts = count_leading_digits_on_host(level);
  }
  void store_leading_digits(void*, const RawLeadingDigits& level, const DigitPlaces& places,
                            const RawDestinations& parts, std::uint64_t* sum) const override {
    if (sum != nullptr) checksum(nullptr, level.type, level.source, level.count, sum);
    store_leading_digits_on_host(level, places, parts);
  }
  void sort_received_digits(void*, const RawLeadingDigits& level, const ReceivedDigits& received, RawRecords part,
                            RawRecords room, std::uint64_t count) const override {
    sort_received_digits_on_host(level, received, part, room, count);
  }

  std::uint64_t merge_scratch_bytes(RecordType, std::uint64_t left, std::uint64_t right) const override {
    return 1024 + (left + right) / 256;
  }

  void merge(void*, RecordType type, RawRecords raw_left, std::uint64_t left_count, RawRecords raw_right,
             std::uint64_t right_count, RawRecords raw_to, void*, std::uint64_t) const override {
    with_record(type, [&](auto key, auto value) {
      using Typed = TypedRecords<typename decltype(key)::type, typename decltype(value)::type>;
      const Typed left(raw_left), right(raw_right), to(raw_to);
      std::uint64_t l = 0, r = 0;
      while (l < left_count || r < right_count) {
        const bool take_left = r == right_count || (l < left_count && left.keys[l] <= right.keys[r]);
        to.move_from(take_left ? left : right, l + r, take_left ? l : r);
        ++(take_left ? l : r);
      }
    });
  }

  void encode(void*, KeyType type, bool descending, const void* from, void* to, std::uint64_t count) const override {
    encode_on_host(type, descending, from, to, count);
  }

  void decode(void*, KeyType type, bool descending, const void* from, void* to, std::uint64_t count) const override {
    decode_on_host(type, descending, from, to, count);
  }

  void iota(void*, ValueWidth width, void* to, std::uint64_t first, std::uint64_t count) const override {
    with_value(width, [&](auto tag) {
      using Value = typename decltype(tag)::type;
      if constexpr (has_value<Value>) {
        auto* values = static_cast<Value*>(to);
        for (std::uint64_t i = 0; i < count; ++i) {
          if constexpr (std::is_same_v<Value, Value16>) values[i] = {first + i, 0};
          else values[i] = static_cast<Value>(first + i);
        }
      }
    });
  }

  void mark_changes(void*, int element_bytes, const void* elements, const void* before, std::uint32_t* marks,
                    std::uint64_t count) const override {
    with_bits(element_bytes, [&](auto tag) {
      using Bits = typename decltype(tag)::type;
      const auto* values = static_cast<const Bits*>(elements);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto* other = i > 0 ? values + i - 1 : static_cast<const Bits*>(before);
        if (other != nullptr && values[i] != *other) marks[i] = 1;
      }
    });
  }

  void list_marked(void*, const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first, std::uint64_t* to,
                   std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i)
      if (marks[i] != 0) to[sums[i]] = first + i;
  }

  void mark_ties(void*, const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
                 std::uint32_t* marks, std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i) marks[i] = is_tied(words, changes, next, i, count) ? 1 : 0;
  }

  void widen_ranks(void*, const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i) to[i] = std::uint64_t{ranks[i]} << 32;
  }

  void refine_ranks(void*, const std::uint64_t* positions, std::uint64_t first, const std::uint32_t* finer,
                    std::uint64_t* ranks, std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i) ranks[positions[i] - first] += finer[i];
  }

  void set_bytes(void*, void* to, std::uint8_t byte, std::uint64_t bytes) const override {
    std::memset(to, byte, bytes);
  }

  void find_range(void*, IntegerType type, const void* column, std::uint64_t count, void* range) const override {
    CodeRange found;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t code = code_at(column, type, i);
      found = {std::min(found.least, code), std::max(found.greatest, code)};
    }
    *static_cast<CodeRange*>(range) = found;
  }

  void pack(void*, const Packing& packing, const void* column, KeyWidth key_width, void* keys,
            std::uint64_t count) const override {
    with_key(key_width, [&](auto tag) {
      using Key = typename decltype(tag)::type;
      auto* to = static_cast<Key*>(keys);
      for (std::uint64_t i = 0; i < count; ++i)
        to[i] = static_cast<Key>(packed(packing.is_first ? 0 : to[i], packing, column, i));
    });
  }

  void sample(void*, KeyType type, bool descending, const void* keys, std::uint64_t count, std::uint64_t samples,
              std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags) const override {
    sample_on_host(type, descending, keys, count, samples, seed, tag_base, codes, tags);
  }

  void histogram(void*, KeyWidth width, const void* keys, std::uint64_t count, BitRange bits, const Prefixes& prefixes,
                 std::uint64_t* counts) const override {
    with_key(width, [&](auto tag) {
      using Key = typename decltype(tag)::type;
      const std::uint64_t digits = 1ULL << (bits.end - bits.begin);
      std::fill_n(counts, digits * static_cast<std::uint64_t>(std::max(prefixes.count, 1)), 0);
      const std::span<const std::uint64_t> known(prefixes.value, static_cast<std::size_t>(prefixes.count));
      for (std::uint64_t i = 0; i < count; ++i) {
        const Key key = static_cast<const Key*>(keys)[i];
        std::uint64_t row = 0;
        if (!known.empty()) {
          const auto found = std::ranges::find(known, key >> bits.end);
          if (found == known.end()) continue;
          row = static_cast<std::uint64_t>(found - known.begin());
        }
        ++counts[row * digits + (key >> bits.begin & (digits - 1))];
      }
    });
  }

  std::uint64_t partition_scratch_bytes(RecordType, std::uint64_t count, int destinations) const override {
    return (count / 4096 + 2) * 8 * static_cast<std::uint64_t>(destinations) + (64 << 10);
  }

  void partition_count(void*, RecordType type, const void* keys, std::uint64_t count, const Splitters& splitters, void*,
                       std::uint64_t, std::uint64_t* totals) const override {
    with_key(type.key, [&](auto tag) {
      using Key = typename decltype(tag)::type;
      std::fill_n(totals, splitters.count + 1, 0);
      for (std::uint64_t i = 0; i < count; ++i)
        ++totals[destination_of(splitters, static_cast<const Key*>(keys)[i], i)];
    });
  }

  void partition(void*, RecordType type, RawRecords raw_from, std::uint64_t count, const Splitters& splitters,
                 const void*, const RawDestinations& destinations) const override {
    with_record(type, [&](auto key, auto value) {
      using Typed = TypedRecords<typename decltype(key)::type, typename decltype(value)::type>;
      const Typed from(raw_from);
      std::array<std::uint64_t, max_destinations> next{};
      for (std::uint64_t i = 0; i < count; ++i) {
        const int d = destination_of(splitters, from.keys[i], i);
        Typed(destinations.records[d]).move_from(from, next[d]++, i);
      }
    });
  }

  void checksum(void*, RecordType type, RawRecords raw, std::uint64_t count, std::uint64_t* sum) const override {
    with_record(type, [&](auto key, auto value) {
      using Value = typename decltype(value)::type;
      const TypedRecords<typename decltype(key)::type, Value> records(raw);
      *sum = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        if constexpr (has_value<Value>) *sum += record_hash(records.keys[i], records.values[i]);
        else *sum += record_hash(records.keys[i], NoValue{});
      }
    });
  }

  void check_part(void*, RecordType type, KeyCoding coding, RawRecords raw, std::uint64_t count,
                  PartNumbers* numbers) const override {
    *numbers = {};
    checksum(nullptr, type, raw, count, &numbers->checksum);
    with_key(type.key, [&](auto tag) {
      std::vector<typename decltype(tag)::type> codes(count);
      encode_on_host(coding.type, coding.descending, raw.keys, codes.data(), count);
      check_order(nullptr, type.key, codes.data(), count, &numbers->violations);
      numbers->first_key = codes.front();
      numbers->last_key = codes.back();
    });
  }

  void check_order(void*, KeyWidth width, const void* keys, std::uint64_t count,
                   std::uint64_t* violations) const override {
    with_key(width, [&](auto tag) {
      const auto* data = static_cast<const typename decltype(tag)::type*>(keys);
      *violations = 0;
      for (std::uint64_t i = 1; i < count; ++i) *violations += data[i] < data[i - 1] ? 1 : 0;
    });
  }

  void select_pivot(void*, KeyWidth width, const RawSegments& left, const RawSegments& right,
                    std::uint64_t* pivot) const override {
    with_key(width, [&](auto tag) { *pivot = leftmost_pivot<typename decltype(tag)::type>(left, right); });
  }

  std::uint64_t probe_scratch_bytes(std::uint64_t probing_rows) const override { return probing_rows / 128 + 16; }

  void probe(void*, const RawProbe& probe, void*, MatchTotals* totals) const override { probe_on_host(probe, totals); }

  std::uint64_t find_ranges_scratch_bytes(std::uint64_t leading_rows) const override { return leading_rows / 64 + 16; }

  void find_ranges(void*, const RawRangeSearch& search, void*, RangeTotals* totals) const override {
    find_ranges_on_host(search, totals);
  }

  void unify_floats(void*, KeyType type, void* codes, std::uint64_t count) const override {
    with_bits(native_bytes(type), [&](auto tag) {
      using Bits = typename decltype(tag)::type;
      using Code = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;
      if constexpr (sizeof(Bits) >= 2)
        for (std::uint64_t i = 0; i < count; ++i) {
          Code& code = static_cast<Code*>(codes)[i];
          code = unified_float<Bits>(code);
        }
    });
  }

  void hash_keys(void*, KeyWidth width, const void* from, void* to, std::uint64_t count) const override {
    with_key(width, [&](auto tag) {
      using Key = typename decltype(tag)::type;
      for (std::uint64_t i = 0; i < count; ++i) static_cast<Key*>(to)[i] = hash_of(static_cast<const Key*>(from)[i]);
    });
  }

  void hash_probe(void*, const RawHashProbe& probe, MatchTotals* totals) const override {
    hash_probe_on_host(probe, totals);
  }

  std::uint64_t block_memory_bytes() const override { return 227 << 10; }  // as of Hopper
  std::uint64_t hash_pass_scratch_bytes(std::uint32_t, std::uint64_t parts) const override { return 8 * parts; }

  void compare_samples(void*, const RawSamples& samples, SeenKeys* seen) const override {
    compare_samples_on_host(samples, seen);
  }

  void count_digits(void*, const RawHashPass& pass, void*, std::uint64_t* counts) const override {
    count_digits_on_host(pass, counts);
  }

  void move_to_parts(void*, const RawHashPass& pass, const std::uint64_t* begin, RawRecords to, void* scratch,
                     std::uint64_t* checksum) const override {
    move_to_parts_on_host(pass, begin, to, static_cast<std::uint64_t*>(scratch), checksum);
  }

  void list_hash_tasks(void*, const RawHashTasks& list) const override { list_hash_tasks_on_host(list); }

  void count_hash_matches(void*, const RawHashMatch& match, const RawHashCount& count) const override {
    count_hash_matches_on_host(match, count);
  }

  void write_hash_matches(void*, const RawHashMatch& match, const RawHashRows& rows) const override {
    write_hash_matches_on_host(match, rows);
  }

  void take_hash_rest(void*, const RawHashRest& rest) const override { take_hash_rest_on_host(rest); }

  std::uint64_t cache_bytes() const override { return 50 << 20; }  // as of Hopper

  void fill_join_table(void*, const RawJoinTable& table) const override { fill_join_table_on_host(table); }

  void check_join_table(void*, const RawJoinTable& table) const override { check_join_table_on_host(table); }

  void count_table_matches(void*, const RawTableProbe& probe, MatchTotals* totals) const override {
    count_table_matches_on_host(probe, totals);
  }

  void write_table_matches(void*, const RawTableProbe& probe, const RawTableRows& rows) const override {
    write_table_matches_on_host(probe, rows);
  }

  std::uint64_t running_sums_scratch_bytes(std::uint64_t count) const override { return 1024 + count / 256; }

  void running_sums(void*, IntegerType type, const void* values, std::uint64_t count, std::uint64_t* sums, void*,
                    std::uint64_t) const override {
    sums[0] = 0;
    for (std::uint64_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + integer_at(values, type, i);
  }

  void expand(void*, const RawEmitting& left, const RawEmitting& right, const RawWindow& window) const override {
    expand_on_host(left, right, window);
  }

  void expand_unmatched(void*, const RawEmitting& left, const RawEmitting& right,
                        const RawWindow& window) const override {
    expand_unmatched_on_host(left, right, window);
  }
};

}  // namespace

std::unique_ptr<Kernels> make_virtual_kernels() { return std::make_unique<VirtualKernels>(); }

}  // namespace linkwise
