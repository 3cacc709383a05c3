#include "linkwise/sort/strategies/counting_sort.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/host/record_hashes.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t fewest = 1 << 16;                        // rows; fewer are sorted as fast in a core's caches
constexpr std::uint64_t sampled_places = 64, sampled_keys = 16;  // and as many consecutive keys at each
constexpr std::uint64_t block = 4096;                            // keys that are encoded at once, in the L1 cache
constexpr std::uint64_t digits = 256;
constexpr std::size_t turns = 4;  // counters of a digit, so that equal neighbours need not wait for each other

using Counts = std::array<std::uint64_t, digits>;

template <typename Code>
struct DigitLoops {
  /// The least and the greatest distance of codes from the lowest one.
  LINKWISE_VECTORS static std::pair<Code, Code> digits_between(const Code* codes, Code lowest, std::uint64_t count) {
    auto least = static_cast<Code>(~Code{0});
    Code greatest = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto distance = static_cast<Code>(codes[i] - lowest);
      least = std::min(least, distance);
      greatest = std::max(greatest, distance);
    }
    return {least, greatest};
  }
};

template <typename Code, typename Value>
class CountingSort {
 public:
  CountingSort(const HostColumns& input, const HostOutputs& output, const SortOptions& options)
      : input_(input), output_(output), options_(options) {}

  bool run() {
    if (!guess_lowest()) return false;
    std::vector<Counts> of_thread(static_cast<std::size_t>(team()), Counts{});
    std::uint64_t came_in = 0, came_out = 0;
    int unsuited = 0;  // threads that have met a code that is none of the digits'
#pragma omp parallel num_threads(team()) reduction(+ : came_in, came_out)
    {
      const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
                 threads = static_cast<std::uint64_t>(omp_get_num_threads());
      const std::uint64_t begin = input_.count * t / threads, end = input_.count * (t + 1) / threads;
      const int mine = count(begin, end, of_thread[t], came_in) ? 0 : 1;
#pragma omp atomic
      unsuited += mine;
#pragma omp barrier
#pragma omp single
      find_begins(of_thread);
      if (unsuited == 0) {
        write_rows(begin, end, of_thread[t]);
#pragma omp barrier
        came_out = finish(begin, end);
      }
    }
    if (unsuited > 0) return false;
    if (options_.verify) {
      ResultCheck check(sizeof(Code) == 4 ? KeyWidth::k32 : KeyWidth::k64);
      check.came_in(came_in);
      check.came_out(Place::host(), {came_out, 0});
      check.finish();
    }
    return true;
  }

 private:
  // Places the 256 codes that digits stand for around those of a sample. Returns whether these are close enough.
  bool guess_lowest() {
    Code least = static_cast<Code>(~Code{0}), greatest = 0;
    std::array<Code, sampled_keys> codes;
    for (std::uint64_t place = 0; place < sampled_places; ++place) {
      encode(place * (input_.count / sampled_places), sampled_keys, codes.data());
      for (const Code code : codes) {
        least = std::min(least, code);
        greatest = std::max(greatest, code);
      }
      if (greatest - least >= digits) return false;  // the first few keys tell of most that do not suit
    }
    const auto spare = static_cast<Code>((digits - 1 - (greatest - least)) / 2);
    lowest_ = std::min(static_cast<Code>(least - std::min(least, spare)), static_cast<Code>(~Code{0} - (digits - 1)));
    return true;
  }

  [[nodiscard]] std::size_t digit_of(Code code) const { return static_cast<std::size_t>(code - lowest_); }

  static void write_numbers(Value* to, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) to[i] = row_number<Value>(first + i);
  }

  void encode(std::uint64_t begin, std::uint64_t length, Code* codes) const {
    const auto* const native = static_cast<const std::byte*>(input_.keys);
    const auto width = static_cast<std::uint64_t>(native_bytes(input_.key_type));
    encode_on_host(input_.key_type, options_.descending, native + begin * width, codes, length);
  }

  // Calls body(codes, first row, length) for all blocks of rows [begin, end).
  template <typename Body>
  void for_each_block(std::uint64_t begin, std::uint64_t end, const Body& body) const {
    std::array<Code, block> codes;
    for (std::uint64_t at = begin; at < end; at += block) {
      const std::uint64_t length = std::min(block, end - at);
      encode(at, length, codes.data());
      if (!body(codes.data(), at, length)) return;
    }
  }

  // Returns false, early, if a code is none of the digits'.
  bool count(std::uint64_t begin, std::uint64_t end, Counts& counts, std::uint64_t& checksum) const {
    std::array<std::array<std::uint32_t, digits>, turns> of_block;
    std::array<Value, block> numbers;
    bool suits = true;
    for_each_block(begin, end, [&](const Code* codes, std::uint64_t first, std::uint64_t length) {
      const auto [least, greatest] = DigitLoops<Code>::digits_between(codes, lowest_, length);
      suits = greatest < digits;
      if (!suits) return false;
      if (least == greatest) counts[static_cast<std::size_t>(least)] += length;
      else {
        for (auto& each : of_block) each.fill(0);
        for (std::uint64_t i = 0; i < length; ++i) ++of_block[i % turns][digit_of(codes[i])];
        for (std::size_t d = 0; d < digits; ++d)
          for (const auto& each : of_block) counts[d] += each[d];
      }
      if (options_.verify) {
        write_numbers(numbers.data(), first, length);
        checksum += RecordHashes<Code, Value>::sum({codes, numbers.data()}, length);
      }
      return true;
    });
    return suits;
  }

  // Replaces counts by where each thread's rows of a digit begin.
  void find_begins(std::vector<Counts>& of_thread) {
    std::uint64_t sum = 0;
    for (std::size_t d = 0; d < digits; ++d) {
      begins_[d] = sum;
      for (Counts& counts : of_thread) sum += std::exchange(counts[d], sum);
    }
    begins_[digits] = sum;
  }

  void write_rows(std::uint64_t begin, std::uint64_t end, Counts& next) const {
    auto* const rows = static_cast<Value*>(output_.values);
    for_each_block(begin, end, [&](const Code* codes, std::uint64_t first, std::uint64_t length) {
      const auto [least, greatest] = DigitLoops<Code>::digits_between(codes, lowest_, length);
      if (least == greatest) {
        std::uint64_t& at = next[static_cast<std::size_t>(least)];
        write_numbers(rows + at, first, length);
        at += length;
      } else
        for (std::uint64_t i = 0; i < length; ++i) rows[next[digit_of(codes[i])]++] = row_number<Value>(first + i);
      return true;
    });
  }

  // Writes the keys of a part of the result, of which each digit has a range; returns the part's checksum.
  std::uint64_t finish(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t checksum = 0;
    const auto width = static_cast<std::uint64_t>(native_bytes(input_.key_type));
    std::array<Code, block> codes;
    auto digit = static_cast<std::size_t>(std::ranges::upper_bound(begins_, begin) - begins_.begin()) - 1;
    for (std::uint64_t at = begin; at < end;) {
      while (begins_[digit + 1] <= at) ++digit;
      const auto code = static_cast<Code>(lowest_ + digit);
      const std::uint64_t length = std::min({end, begins_[digit + 1], at + block}) - at;
      std::fill_n(codes.begin(), length, code);
      if (options_.verify)
        checksum +=
            RecordHashes<Code, Value>::sum({codes.data(), static_cast<const Value*>(output_.values) + at}, length);
      if (output_.keys != nullptr)
        decode_on_host(input_.key_type, options_.descending, codes.data(),
                       static_cast<std::byte*>(output_.keys) + at * width, length);
      at += length;
    }
    return checksum;
  }

  const HostColumns& input_;
  const HostOutputs& output_;
  const SortOptions& options_;
  Code lowest_ = 0;  // the code of the first digit
  std::array<std::uint64_t, digits + 1> begins_{};
};

}  // namespace

bool counting_sort(const HostColumns& input, const HostOutputs& output, const SortOptions& options) {
  if (input.count < fewest || input.value_width == ValueWidth::none || input.values != nullptr ||
      output.values == nullptr)
    return false;
  bool is_sorted = false;
  with_record({key_width(input.key_type), input.value_width}, [&](auto key, auto value) {
    using Value = typename decltype(value)::type;
    if constexpr (!std::is_same_v<Value, NoValue>)
      is_sorted = CountingSort<typename decltype(key)::type, Value>(input, output, options).run();
  });
  return is_sorted;
}

}  // namespace linkwise
