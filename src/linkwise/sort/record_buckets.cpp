#include "linkwise/sort/record_buckets.hpp"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/host/cache_sort.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/host/record_hashes.hpp"
#include "linkwise/sort/bucket_digits.hpp"
#include "linkwise/sort/bucket_lines.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t bucket_records = 1 << 15;  // wanted in a bucket, within limits on the number of buckets
constexpr std::uint64_t buckets_of_core = 16, most_buckets = 1 << 11;
constexpr std::uint64_t sample_share = 64;  // one in so many records is sampled
constexpr std::uint64_t most_samples = 1 << 14;
constexpr std::uint64_t block = 1024;           // records that are encoded at once, in the L1 cache
constexpr std::uint64_t lines_bytes = 1 << 18;  // of a thread's write-combining buffers, in the L2 cache

// Converts keys to codes or back, with the key class as a compile-time constant.
template <typename Code, typename Convert>
[[gnu::always_inline]] inline void convert(const Code* from, KeyClass kind, Code* to, std::uint64_t count,
                                           const Convert& one) {
  const auto all = [&](KeyClass known) {
    for (std::uint64_t i = 0; i < count; ++i) to[i] = one(from[i], known);
  };
  switch (kind) {
    case KeyClass::unsigned_integer: return all(KeyClass::unsigned_integer);
    case KeyClass::signed_integer: return all(KeyClass::signed_integer);
    case KeyClass::floating: return all(KeyClass::floating);
  }
}

template <typename Code>
struct Loops {
  LINKWISE_VECTORS static void encode(const Code* keys, KeyClass kind, bool descending, Code* codes,
                                      std::uint64_t count) {
    const Code turned = descending ? static_cast<Code>(~Code{0}) : Code{0};
    convert(keys, kind, codes, count, [turned](Code key, KeyClass known) {
      return static_cast<Code>(encode_bits<Code>(key, known, false) ^ turned);
    });
  }
  LINKWISE_VECTORS static void decode(Code* codes, KeyClass kind, bool descending, std::uint64_t count) {
    const Code turned = descending ? static_cast<Code>(~Code{0}) : Code{0};
    convert(codes, kind, codes, count, [turned](Code code, KeyClass known) {
      return decode_bits<Code>(static_cast<Code>(code ^ turned), known, false);
    });
  }
  LINKWISE_VECTORS static std::uint64_t violations(const Code* codes, std::uint64_t count) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 1; i < count; ++i) found += codes[i] < codes[i - 1] ? 1 : 0;
    return found;
  }
};
template struct Loops<std::uint32_t>;
template struct Loops<std::uint64_t>;

// Records of the input, their keys as codes.
template <typename Code, typename Value>
class Source {
 public:
  Source(const HostColumns& input, bool descending) : input_(input), descending_(descending) {}

  [[nodiscard]] std::vector<Code> sample() const {
    std::vector<Code> codes(std::min(input_.count / sample_share, most_samples));
    for (std::uint64_t i = 0; i < codes.size(); ++i)
      codes[i] = encode_bits<Code>(keys()[sample_position(i, codes.size(), input_.count, 0)],
                                   key_class(input_.key_type), descending_);
    return codes;
  }

  /// Calls `body` with records [begin, end) and their buckets, a block at a time.
  template <typename Body>
  void for_each_block(const BucketDigits<Code>& digits, std::uint64_t begin, std::uint64_t end,
                      const Body& body) const {
    alignas(cache_line) Code made[block];
    alignas(cache_line) Value numbers[has_value<Value> ? block : 1];
    alignas(cache_line) std::uint32_t buckets[block];
    for (std::uint64_t at = begin; at < end; at += block) {
      const std::uint64_t count = std::min(block, end - at);
      HostRecords<const Code, const Value> records{keys() + at, nullptr};
      if (!is_own_code(input_.key_type, descending_)) {
        Loops<Code>::encode(records.keys, key_class(input_.key_type), descending_, made, count);
        records.keys = made;
      }
      if constexpr (has_value<Value>) {
        if (input_.values == nullptr)
          for (std::uint64_t i = 0; i < count; ++i) numbers[i] = row_number<Value>(at + i);
        records.values = input_.values == nullptr ? numbers : static_cast<const Value*>(input_.values) + at;
      }
      digits.find(records.keys, buckets, count);
      body(records, buckets, count);
    }
  }

 private:
  [[nodiscard]] const Code* keys() const { return static_cast<const Code*>(input_.keys); }

  const HostColumns& input_;
  bool descending_;
};

// The most records of a bucket with which all cores still finish at about the same time.
std::uint64_t most_in_bucket(std::uint64_t count) { return count / (4 * static_cast<std::uint64_t>(team())); }

std::uint64_t largest_of(const std::vector<std::uint64_t>& begins) {
  std::uint64_t largest = 0;
  for (std::size_t b = 0; b + 1 < begins.size(); ++b) largest = std::max(largest, begins[b + 1] - begins[b]);
  return largest;
}

// Whether too much of a sample, whose buckets are a little more uneven than all records', lies in one bucket.
template <typename Code>
bool is_skewed(const std::vector<Code>& sample, const BucketDigits<Code>& digits) {
  std::vector<std::uint32_t> buckets(sample.size()), held(digits.count());
  digits.find(sample.data(), buckets.data(), sample.size());
  for (const std::uint32_t bucket : buckets) ++held[bucket];
  return std::ranges::max(held) / 2 > most_in_bucket(sample.size());
}

// Computes where each bucket begins and, if the buckets balance the work, scatters the records. Returns whether it did.
template <typename Code, typename Value>
bool scatter_records(const Source<Code, Value>& source, HostRecords<Code, Value> to, std::uint64_t count,
                     std::vector<std::uint64_t>& begins, std::uint64_t* checksum) {
  const std::vector<Code> sample = source.sample();
  if (sample.empty()) return false;
  const std::uint64_t least_buckets = buckets_of_core * static_cast<std::uint64_t>(team());
  const std::uint64_t most_lines = lines_bytes / sizeof(typename BucketLines<Code, Value>::Line);
  const std::uint64_t wanted =
      std::clamp(count / bucket_records, least_buckets, std::max(least_buckets, std::min(most_buckets, most_lines)));
  const BucketDigits<Code> digits(sample, wanted, most_in_bucket(sample.size()) * 2 / 3);
  if (is_skewed(sample, digits)) return false;
  const std::uint64_t most = most_in_bucket(count);
  std::vector<std::vector<std::uint64_t>> of_thread(static_cast<std::size_t>(team()));
  std::uint64_t hashes = 0;
  bool goes_on = false;
#pragma omp parallel num_threads(team()) reduction(+ : hashes)
  {
    const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
               threads = static_cast<std::uint64_t>(omp_get_num_threads());
    const std::uint64_t begin = count * t / threads, end = count * (t + 1) / threads;
    std::vector<std::uint64_t> mine(digits.count());
    source.for_each_block(digits, begin, end, [&](auto records, const std::uint32_t* buckets, std::uint64_t length) {
      for (std::uint64_t i = 0; i < length; ++i) ++mine[buckets[i]];
      if (checksum != nullptr) hashes += RecordHashes<Code, Value>::sum(records, length);
    });
    of_thread[t] = std::move(mine);
#pragma omp barrier
#pragma omp single
    {
      std::uint64_t sum = 0;
      for (std::uint64_t b = 0; b < digits.count(); ++b) {
        begins.push_back(sum);
        for (std::uint64_t u = 0; u < threads; ++u) sum += std::exchange(of_thread[u][b], sum);
      }
      begins.push_back(sum);
      goes_on = largest_of(begins) <= most;
    }
    if (goes_on) {
      BucketLines<Code, Value> lines(to, std::move(of_thread[t]));
      source.for_each_block(digits, begin, end, [&](auto records, const std::uint32_t* buckets, std::uint64_t length) {
        lines.put(records, buckets, length);
      });
      lines.write_rest();
    }
  }
  if (checksum != nullptr) *checksum = hashes;
  return goes_on;
}

template <typename Code, typename Value>
HostRecords<Code, Value> typed(RawRecords records) {
  return {static_cast<Code*>(records.keys), static_cast<Value*>(records.values)};
}

bool is_aligned(const void* elements, int bytes) {
  return bytes == 0 || reinterpret_cast<std::uintptr_t>(elements) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace

std::optional<RecordBuckets> RecordBuckets::scatter(const HostColumns& input, RawRecords to, Wanted wanted) {
  const int key_bytes = native_bytes(input.key_type);
  RecordBuckets buckets(input, to, wanted);
  const int value_bytes = static_cast<int>(buckets.record_.value_bytes());
  if (key_bytes < 4 || !is_aligned(input.keys, key_bytes) || !is_aligned(to.keys, key_bytes) ||
      !is_aligned(input.values, value_bytes) || !is_aligned(to.values, value_bytes))
    return {};
  bool is_scattered = false;
  with_record(buckets.record_, [&](auto key, auto value) {
    using Code = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    is_scattered =
        scatter_records<Code, Value>(Source<Code, Value>(input, wanted.descending), typed<Code, Value>(to), input.count,
                                     buckets.begins_, wanted.verify ? &buckets.checksum_ : nullptr);
  });
  if (!is_scattered) return {};
  buckets.finished_.resize(buckets.begins_.size() - 1);
  return buckets;
}

void RecordBuckets::sort() {
  const std::size_t buckets = finished_.size();
  const std::uint64_t largest = largest_of(begins_), room = largest * static_cast<std::uint64_t>(team());
  const HugePageBuffer spare_keys(room * record_.key_bytes()), spare_values(room * record_.value_bytes());
  with_record(record_, [&](auto key, auto value) {
    using Code = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const auto records = typed<Code, Value>(to_), spare = typed<Code, Value>({spare_keys.data(), spare_values.data()});
#pragma omp parallel for schedule(dynamic) num_threads(team())
    for (std::size_t b = 0; b < buckets; ++b) {
      CacheSort<Code, Value>::sort(records.at(begins_[b]),
                                   spare.at(static_cast<std::uint64_t>(omp_get_thread_num()) * largest),
                                   begins_[b + 1] - begins_[b], /*into_spare=*/false);
      finish_records<Code, Value>(b);
    }
  });
}

void RecordBuckets::finish(std::uint64_t bucket) {
  with_key(record_.key, [&](auto tag) { finish_records<typename decltype(tag)::type, NoValue>(bucket); });
}

template <typename Code, typename Value>
void RecordBuckets::finish_records(std::uint64_t bucket) {
  const std::uint64_t begin = begins_[bucket], count = begins_[bucket + 1] - begin;
  if (count == 0) return;
  const auto records = typed<Code, Value>(to_).at(begin);
  if (wanted_.verify) {
    finished_[bucket] = {RecordHashes<Code, Value>::sum({records.keys, records.values}, count),
                         Loops<Code>::violations(records.keys, count), records.keys[0], records.keys[count - 1]};
  }
  if (wanted_.keys && !is_own_code(type_, wanted_.descending))
    Loops<Code>::decode(records.keys, key_class(type_), wanted_.descending, count);
}

void RecordBuckets::check() const {
  if (!wanted_.verify) return;
  ResultCheck check(record_.key);
  check.came_in(checksum_);
  for (const std::optional<PartNumbers>& part : finished_)
    if (part) check.came_out(Place::host(), *part);
  check.finish();
}

}  // namespace linkwise
