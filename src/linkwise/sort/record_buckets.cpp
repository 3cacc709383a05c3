#include "linkwise/sort/key_buckets.hpp"

#include <omp.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "linkwise/device/nontemporal_copy.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/sort/bucket_digits.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t bucket_keys = 1 << 15;  // wanted in a bucket, within limits on the number of buckets
constexpr std::uint64_t buckets_of_core = 16, most_buckets = 1 << 11;
constexpr std::uint64_t sample_share = 64;  // one in so many keys is sampled
constexpr std::uint64_t most_samples = 1 << 14;
constexpr std::uint64_t block = 2048;  // codes that are encoded at once, in the L1 cache

// Loops over a block, which the compiler vectorises; the widest version for the CPU's vectors is chosen at load time.
#define LINKWISE_VECTORS [[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]]

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
  LINKWISE_VECTORS static std::uint64_t sum_of_hashes(const Code* codes, std::uint64_t count) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) sum += record_hash(codes[i], NoValue{});
    return sum;
  }
  LINKWISE_VECTORS static std::uint64_t violations(const Code* codes, std::uint64_t count) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 1; i < count; ++i) found += codes[i] < codes[i - 1] ? 1 : 0;
    return found;
  }
};
template struct Loops<std::uint32_t>;
template struct Loops<std::uint64_t>;

// Calls `body` with the codes of keys [begin, end) and their buckets, a block at a time.
template <typename Code, typename Body>
void for_each_block(KeyType type, bool descending, const BucketDigits<Code>& digits, const Code* keys,
                    std::uint64_t begin, std::uint64_t end, const Body& body) {
  alignas(cache_line) Code made[block];
  alignas(cache_line) std::uint32_t buckets[block];
  for (std::uint64_t at = begin; at < end; at += block) {
    const std::uint64_t count = std::min(block, end - at);
    const Code* codes = keys + at;
    if (!is_own_code(type, descending)) {
      Loops<Code>::encode(codes, key_class(type), descending, made, count);
      codes = made;
    }
    digits.find(codes, buckets, count);
    body(codes, buckets, count);
  }
}

// Write-combining buffers: codes for a bucket are collected in a cache line that is aligned like their destination. A
// full line is written with non-temporal stores, so that the destination need not be read first.
template <typename Code>
class BucketLines {
 public:
  /// `next`: the position in `codes` of each bucket's next code. `codes` need only be aligned to whole codes.
  BucketLines(Code* codes, std::vector<std::uint64_t> next)
      : lines_(std::make_unique<Line[]>(next.size())), first_(next.size()), next_(std::move(next)) {
    const auto ahead = reinterpret_cast<std::uintptr_t>(codes) % cache_line / sizeof(Code);
    codes_ = codes - ahead;
    for (std::size_t b = 0; b < next_.size(); ++b) first_[b] = static_cast<std::uint8_t>((next_[b] += ahead) % length);
  }

  void put(const Code* codes, const std::uint32_t* buckets, std::uint64_t count) {
    Line* const lines = lines_.get();
    std::uint64_t* const next = next_.data();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t bucket = buckets[i];
      const std::uint64_t at = next[bucket]++;
      lines[bucket].codes[at % length] = codes[i];
      if (at % length == length - 1) [[unlikely]] {
        Code* line = codes_ + (at - (length - 1));
        if (first_[bucket] == 0) stream_lines(line, lines[bucket].codes, 1);
        else write(bucket, line, length);
        first_[bucket] = 0;
      }
    }
  }
  void write_rest() {
    for (std::uint32_t b = 0; b < next_.size(); ++b) {
      const std::uint64_t held = next_[b] % length;
      if (held > first_[b]) write(b, codes_ + (next_[b] - held), held);
    }
    finish_streaming();
  }

 private:
  static constexpr std::uint64_t length = cache_line / sizeof(Code);
  struct alignas(cache_line) Line {
    Code codes[length];
  };

  void write(std::uint32_t bucket, Code* line, std::uint64_t end) const {
    std::copy(lines_[bucket].codes + first_[bucket], lines_[bucket].codes + end, line + first_[bucket]);
  }

  std::unique_ptr<Line[]> lines_;
  std::vector<std::uint8_t> first_;  // the first code that is present in each bucket's line
  std::vector<std::uint64_t> next_;
  Code* codes_;
};

template <typename Code>
std::vector<Code> sample_of(KeyType type, bool descending, const Code* keys, std::uint64_t count) {
  std::vector<Code> sample(std::min(count / sample_share, most_samples));
  for (std::uint64_t i = 0; i < sample.size(); ++i)
    sample[i] = encode_bits<Code>(keys[sample_position(i, sample.size(), count, 0)], key_class(type), descending);
  return sample;
}

// Whether the buckets balance the work, so that all cores would finish at about the same time.
bool is_shared_out(const std::vector<std::uint64_t>& begins, std::uint64_t count) {
  std::uint64_t largest = 0;
  for (std::size_t b = 0; b + 1 < begins.size(); ++b) largest = std::max(largest, begins[b + 1] - begins[b]);
  return largest <= count / (4 * static_cast<std::uint64_t>(team()));
}

// Computes where each bucket begins and, if the buckets balance the work, scatters the codes. Returns whether it did.
template <typename Code>
bool scatter_codes(KeyType type, bool descending, const Code* keys, Code* codes, std::uint64_t count,
                   std::vector<std::uint64_t>& begins, std::uint64_t* checksum) {
  const std::vector<Code> sample = sample_of(type, descending, keys, count);
  if (sample.empty()) return false;
  const std::uint64_t least_buckets = buckets_of_core * static_cast<std::uint64_t>(team());
  const BucketDigits<Code> digits(
      sample, std::clamp(count / bucket_keys, least_buckets, std::max(least_buckets, most_buckets)));
  std::vector<std::vector<std::uint64_t>> of_thread(static_cast<std::size_t>(team()));
  std::uint64_t hashes = 0;
  bool goes_on = false;
#pragma omp parallel num_threads(team()) reduction(+ : hashes)
  {
    const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
               threads = static_cast<std::uint64_t>(omp_get_num_threads());
    const std::uint64_t begin = count * t / threads, end = count * (t + 1) / threads;
    std::vector<std::uint64_t> mine(digits.count());
    for_each_block(type, descending, digits, keys, begin, end,
                   [&](const Code* of_block, const std::uint32_t* buckets, std::uint64_t length) {
                     for (std::uint64_t i = 0; i < length; ++i) ++mine[buckets[i]];
                     if (checksum != nullptr) hashes += Loops<Code>::sum_of_hashes(of_block, length);
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
      goes_on = is_shared_out(begins, count);
    }
    if (goes_on) {
      BucketLines<Code> lines(codes, std::move(of_thread[t]));
      for_each_block(type, descending, digits, keys, begin, end,
                     [&](const Code* of_block, const std::uint32_t* buckets, std::uint64_t length) {
                       lines.put(of_block, buckets, length);
                     });
      lines.write_rest();
    }
  }
  if (checksum != nullptr) *checksum = hashes;
  return goes_on;
}

}  // namespace

std::optional<KeyBuckets> KeyBuckets::scatter(KeyType type, bool descending, const void* keys, void* codes,
                                              std::uint64_t count, bool verify) {
  if (native_bytes(type) < 4) return {};
  const auto is_aligned = [width = native_bytes(type)](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % width == 0;
  };
  if (!is_aligned(keys) || !is_aligned(codes)) return {};
  KeyBuckets buckets(type, descending, codes, verify);
  bool is_scattered = false;
  with_key(key_width(type), [&](auto tag) {
    using Code = typename decltype(tag)::type;
    is_scattered = scatter_codes(type, descending, static_cast<const Code*>(keys), static_cast<Code*>(codes), count,
                                 buckets.begins_, verify ? &buckets.checksum_ : nullptr);
  });
  if (!is_scattered) return {};
  buckets.finished_.resize(buckets.begins_.size() - 1);
  return buckets;
}

void KeyBuckets::finish(std::uint64_t bucket) {
  const std::uint64_t begin = begins_[bucket], count = begins_[bucket + 1] - begin;
  if (count == 0) return;
  with_key(key_width(type_), [&](auto tag) {
    using Code = typename decltype(tag)::type;
    auto* codes = static_cast<Code*>(codes_) + begin;
    if (verify_) {
      finished_[bucket] = {Loops<Code>::sum_of_hashes(codes, count), Loops<Code>::violations(codes, count), codes[0],
                           codes[count - 1]};
    }
    if (!is_own_code(type_, descending_)) Loops<Code>::decode(codes, key_class(type_), descending_, count);
  });
}

void KeyBuckets::check() const {
  if (!verify_) return;
  ResultCheck check(key_width(type_));
  check.came_in(checksum_);
  for (const std::optional<PartNumbers>& part : finished_)
    if (part) check.came_out(Place::host(), *part);
  check.finish();
}

}  // namespace linkwise
