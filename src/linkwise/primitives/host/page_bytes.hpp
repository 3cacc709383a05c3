// The bytes of a Parquet page, which are decompressed only as far as they are asked for.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "linkwise/error.hpp"

namespace linkwise {

/// Holds one page after the other, without copying what is compressed. Functions throw `Error` for damaged pages.
class PageBytes {
 public:
  /// Holds a page as it is.
  void hold(std::span<const std::uint8_t> page);

  /// Holds a page of `size` bytes that is compressed by Snappy. Damage behind the bytes that are asked for is not
  /// noticed. Source: Snappy, format_description.txt.
  void hold_snappy(std::span<const std::uint8_t> page, std::uint64_t size);

  std::uint64_t size() const { return size_; }

  /// The `count` bytes from `begin`. They are valid until another page is held.
  std::span<const std::uint8_t> part(std::uint64_t begin, std::uint64_t count) {
    if (begin > size_ || count > size_ - begin) refuse();
    if (begin + count > ready_) decompress(begin + count);
    return {bytes_ + begin, count};
  }

  [[noreturn]] static void refuse();

 private:
  void decompress(std::uint64_t end);
  void decompress_short_elements(std::uint64_t end);
  void decompress_element();

  const std::uint8_t* bytes_ = nullptr;
  std::uint64_t size_ = 0, ready_ = 0;
  std::span<const std::uint8_t> compressed_;  // those that are not yet decompressed
  std::vector<std::uint8_t> decompressed_;
};

/// Takes bytes from the front of a page, or of a part of it.
class PageInput {
 public:
  explicit PageInput(PageBytes& page) : PageInput(page, 0, page.size()) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return end_ - at_; }

  std::span<const std::uint8_t> take(std::uint64_t count) {
    skip(count);
    return page_->part(at_ - count, count);
  }

  void skip(std::uint64_t count) {
    if (count > left()) PageBytes::refuse();
    at_ += count;
  }

  /// The next bytes, as an input of their own.
  PageInput part(std::uint64_t count) {
    skip(count);
    return {*page_, at_ - count, at_};
  }

  std::uint32_t length() {
    std::uint32_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);  // little endian, as this machine
    return value;
  }

  /// `most_bits`: of the number, rounded up to a multiple of 7.
  std::uint64_t varint(int most_bits = 64) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < most_bits; shift += 7) {
      const std::uint8_t part = take(1)[0];
      value |= std::uint64_t{part & 0x7Fu} << shift;
      if (part < 0x80) return value;
    }
    throw Error("a page with a number that is too long");
  }

  /// A number whose last bit is its sign; modulo 2⁶⁴.
  std::uint64_t signed_varint() {
    const std::uint64_t value = varint();
    return (value >> 1) ^ (0 - (value & 1));
  }

 private:
  PageInput(PageBytes& page, std::uint64_t begin, std::uint64_t end) : page_(&page), at_(begin), end_(end) {}

  PageBytes* page_;
  std::uint64_t at_, end_;
};

}  // namespace linkwise
