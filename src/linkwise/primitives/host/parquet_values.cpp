#include "linkwise/primitives/host/parquet_values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::int64_t null = -1;  // in place of the number of a value

/// A run of small numbers: one that repeats, or several that are packed.
struct Run {
  std::uint64_t begin = 0, end = 0;
  bool is_packed = false;
  std::uint32_t repeated = 0;
  Bytes packed;
  int bits = 0;  // of each

  std::uint32_t operator[](std::uint64_t at) const {
    if (!is_packed) return repeated;
    const std::uint64_t first = (at - begin) * static_cast<std::uint64_t>(bits), shift = first % 8;
    std::uint64_t word = 0;
    for (std::uint64_t byte = 0; 8 * byte < shift + static_cast<std::uint64_t>(bits); ++byte)
      word |= std::uint64_t{packed[first / 8 + byte]} << (8 * byte);
    return static_cast<std::uint32_t>((word >> shift) & ((std::uint64_t{1} << bits) - 1));
  }
};

/// The runs of the hybrid of run-length encoding and bit packing, in order.
class HybridRuns {
 public:
  HybridRuns(PageInput input, int bits) : input_(input), bits_(bits) { run_.bits = bits; }

  /// The run that has a number, at or behind that of the last call.
  const Run& at(std::uint64_t number) {
    while (number >= run_.end) next();
    return run_;
  }

  /// The run behind the last one.
  const Run& next() {
    const std::uint64_t head = input_.varint(32);
    run_.begin = run_.end;
    run_.is_packed = (head & 1) != 0;
    if (run_.is_packed) {
      const std::uint64_t whole = (head >> 1) * static_cast<std::uint64_t>(bits_);
      run_.packed = input_.take(std::min<std::uint64_t>(whole, input_.left()));  // the last may be cut short
      run_.end += bits_ == 0 ? 8 * (head >> 1) : 8 * run_.packed.size() / static_cast<std::uint64_t>(bits_);
    } else {
      const Bytes value = input_.take(static_cast<std::uint64_t>(bits_ + 7) / 8);
      run_.repeated = 0;
      for (std::size_t byte = 0; byte < value.size(); ++byte) run_.repeated |= std::uint32_t{value[byte]} << (8 * byte);
      run_.end += head >> 1;
    }
    if (run_.end == run_.begin) throw Error("a run without values");
    return run_;
  }

 private:
  PageInput input_;
  int bits_;
  Run run_;
};

/// Integers of which each is stored as its difference to the one before, in blocks that have one minimum, and parts of
/// these whose differences have as many bits (DELTA_BINARY_PACKED).
class DeltaValues {
 public:
  explicit DeltaValues(PageInput input) : input_(input) {
    const std::uint64_t block = input_.varint();
    parts_ = part_ = input_.varint();
    values_ = input_.varint();
    value_ = input_.signed_varint();
    if (block == 0 || parts_ == 0 || block % parts_ != 0 || block / parts_ % unpacked != 0)
      throw Error("blocks of another size");
    rounds_ = block / parts_ / unpacked;
  }

  /// The value that has a number, at or behind that of the last call; modulo 2⁶⁴.
  std::uint64_t at(std::uint64_t number) {
    if (number >= values_) throw Error("a page that ends early");
    for (; at_ < number; ++at_) {
      if (next_ == unpacked) unpack();
      value_ += least_ + deltas_[next_++];
    }
    return value_;
  }

 private:
  static constexpr std::size_t unpacked = 32;  // differences at once, which end at a whole byte

  void unpack() {
    if (round_ == 0) {
      if (part_ == parts_) {
        least_ = input_.signed_varint();
        widths_ = input_.take(parts_);
        part_ = 0;
      }
      bits_ = widths_[part_++];
      if (bits_ > 64) throw Error("differences of more than 64 bits");
      round_ = rounds_;
    }
    --round_;
    std::array<std::uint8_t, unpacked * 8 + 9> packed = {};
    const Bytes taken = input_.take(unpacked / 8 * bits_);
    std::ranges::copy(taken, packed.begin());
    const std::uint64_t mask = bits_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits_) - 1;
    for (std::size_t i = 0; i < unpacked; ++i) {
      const std::size_t first = i * bits_ / 8, shift = i * bits_ % 8;
      std::uint64_t word = 0;
      std::memcpy(&word, &packed[first], sizeof word);
      word >>= shift;
      if (shift + bits_ > 64) word |= std::uint64_t{packed[first + 8]} << (64 - shift);
      deltas_[i] = word & mask;
    }
    next_ = 0;
  }

  PageInput input_;
  std::uint64_t parts_, values_, value_, rounds_;  // `rounds_`: of unpacking, for a part
  std::uint64_t at_ = 0, part_, round_ = 0, least_ = 0;
  Bytes widths_;
  std::size_t bits_ = 0, next_ = unpacked;
  std::array<std::uint64_t, unpacked> deltas_ = {};
};

/// How many of a run's levels from `begin` to `end` are 1.
std::uint64_t present(const Run& run, std::uint64_t begin, std::uint64_t end) {
  if (!run.is_packed) return run.repeated != 0 ? end - begin : 0;
  std::uint64_t count = 0;
  for (; begin < end && (begin - run.begin) % 8 != 0; ++begin) count += run[begin];
  for (; begin + 8 <= end; begin += 8)
    count += static_cast<std::uint64_t>(std::popcount(run.packed[(begin - run.begin) / 8]));
  for (; begin < end; ++begin) count += run[begin];
  return count;
}

/// The numbers of the values at these places among those that are not null.
std::vector<std::int64_t> numbers_of(std::span<const std::int64_t> places, PageInput levels) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(places.size());
  HybridRuns runs(levels, 1);
  const Run* run = nullptr;
  std::uint64_t counted = 0, before = 0;  // levels so far, and how many of them are 1
  for (const std::int64_t at : places) {
    const auto place = static_cast<std::uint64_t>(at);
    while (run == nullptr || place >= run->end) {
      if (run != nullptr) before += present(*run, counted, run->end);
      run = &runs.next();
      counted = run->begin;
    }
    before += present(*run, counted, place);
    counted = place;
    numbers.push_back((*run)[place] != 0 ? static_cast<std::int64_t>(before) : null);
  }
  return numbers;
}

void hold(PageBytes& held, Bytes page, std::optional<std::uint64_t> plain_bytes) {
  if (plain_bytes) held.hold_snappy(page, *plain_bytes);
  else held.hold(page);
}

}  // namespace

void ParquetValues::set_dictionary(Bytes page, std::uint64_t values, std::optional<std::uint64_t> plain_bytes) {
  dictionary_page_.assign(page.begin(), page.end());
  hold(dictionary_, dictionary_page_, plain_bytes);
  if (values > dictionary_.size() / std::max<std::uint32_t>(width_, 4)) throw Error("a dictionary that ends early");
  entries_ = values;
  strings_.clear();
  if (width_ != 0) return;
  strings_.reserve(values);
  PageInput input(dictionary_);
  for (std::uint64_t i = 0; i < values; ++i) {
    const std::uint64_t length = input.length();
    strings_.emplace_back(input.at(), length);
    input.skip(length);
  }
}

void ParquetValues::add(Bytes page, std::uint64_t values, std::int64_t encoding, std::span<const std::int64_t> places,
                        std::optional<std::uint64_t> plain_bytes) {
  if (places.empty()) return;
  if (!std::ranges::is_sorted(places) || places.front() < 0 || static_cast<std::uint64_t>(places.back()) >= values)
    throw Error("places that a page does not have");
  hold(page_, page, plain_bytes);
  PageInput input(page_);
  std::vector<std::int64_t> numbers;
  if (may_be_null_) {
    numbers = numbers_of(places, input.part(input.length()));
    places = numbers;
  }
  if (encoding == plain) return add_plain(input, places);
  if (encoding == deltas) return add_by_deltas(input, places);
  if (encoding != plain_dictionary && encoding != by_dictionary) throw Error("values of another encoding");
  return add_by_dictionary(input, places);
}

void ParquetValues::append(Bytes value) {
  is_valid_.push_back(1);
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  if (width_ == 0) offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
}

void ParquetValues::append_null() {
  is_valid_.push_back(0);
  bytes_.resize(bytes_.size() + width_);
  if (width_ == 0) offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
}

void ParquetValues::add_plain(PageInput input, std::span<const std::int64_t> numbers) {
  std::int64_t next = 0;  // the number of the value that comes next
  for (const std::int64_t number : numbers) {
    if (number == null) {
      append_null();
      continue;
    }
    if (width_ != 0) input.skip(static_cast<std::uint64_t>(number - next) * width_);
    else
      for (std::int64_t at = next; at < number; ++at) input.skip(input.length());
    next = number;
    PageInput value = input;  // the same may be wanted again
    append(value.take(width_ != 0 ? width_ : value.length()));
  }
}

void ParquetValues::add_by_deltas(PageInput input, std::span<const std::int64_t> numbers) {
  if (width_ == 0) throw Error("strings as differences");
  std::optional<DeltaValues> values;
  for (const std::int64_t number : numbers) {
    if (number == null) {
      append_null();
      continue;
    }
    if (!values) values.emplace(input);
    const std::uint64_t value = values->at(static_cast<std::uint64_t>(number));
    std::array<std::uint8_t, sizeof value> bytes = {};
    std::memcpy(bytes.data(), &value, sizeof value);  // little endian, as this machine
    append(Bytes(bytes).first(width_));
  }
}

void ParquetValues::add_by_dictionary(PageInput input, std::span<const std::int64_t> numbers) {
  const int bits = std::ranges::all_of(numbers, [](auto number) { return number == null; }) ? 0 : input.take(1)[0];
  if (bits > 32) throw Error("numbers of more than 32 bits");
  HybridRuns runs(input, bits);
  for (const std::int64_t number : numbers) {
    if (number == null) {
      append_null();
      continue;
    }
    const std::uint32_t entry = runs.at(static_cast<std::uint64_t>(number))[static_cast<std::uint64_t>(number)];
    if (entry >= entries_) throw Error("a value that the dictionary does not have");
    const auto [begin, length] =
        width_ != 0 ? std::pair(std::uint64_t{entry} * width_, std::uint64_t{width_}) : strings_[entry];
    append(dictionary_.part(begin, length));
  }
}

}  // namespace linkwise
