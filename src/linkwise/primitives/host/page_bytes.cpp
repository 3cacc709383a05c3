#include "linkwise/primitives/host/page_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t most_copied =
    64;                                // bytes by one element; as elements take several, no page grows by this factor
constexpr std::uint64_t at_once = 16;  // bytes that are copied even where fewer are meant
constexpr std::uint64_t at_least = 1 << 12;  // bytes that are decompressed, as beginning again takes time

/// What the data consist of: a head, and, for a literal, bytes; otherwise earlier ones are copied again.
struct Element {
  static constexpr std::uint64_t longest_head = 5;

  std::uint64_t head, count;  // bytes
  std::uint64_t distance;     // to the earlier bytes
  bool is_literal;
};

/// A number, little endian, as this machine.
template <typename Number>
std::uint64_t number(const std::uint8_t* at) {
  Number value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// `in`: `longest_head` bytes, of which those behind the head do not matter.
inline Element element_at(const std::uint8_t* in) {
  constexpr std::uint64_t short_literal = 60;
  const std::uint64_t tag = in[0], count = (tag >> 2) + 1;
  switch (tag & 3) {
    case 1: return {2, ((tag >> 2) & 7) + 4, (tag >> 5) << 8 | in[1], false};
    case 2: return {3, count, number<std::uint16_t>(in + 1), false};
    case 3: return {5, count, number<std::uint32_t>(in + 1), false};
    default: break;
  }
  if (count <= short_literal) return {1, count, 0, true};
  const std::uint64_t bytes = count - short_literal;
  return {1 + bytes, (number<std::uint32_t>(in + 1) & (~std::uint64_t{0} >> (64 - 8 * bytes))) + 1, 0, true};
}

/// Copies what was decompressed `distance` bytes before; there is room for `at_once` bytes more.
void copy_again(std::uint8_t* to, std::uint64_t distance, std::uint64_t count) {
  constexpr std::uint64_t step = 8;
  const std::uint8_t* const from = to - distance;
  if (distance < step) {
    for (std::uint64_t at = 0; at < count; ++at) to[at] = from[at];
    return;
  }
  for (std::uint64_t at = 0; at < count; at += step) std::memcpy(to + at, from + at, step);
}

}  // namespace

void PageBytes::hold(Bytes page) {
  bytes_ = page.data();
  size_ = ready_ = page.size();
}

void PageBytes::hold_snappy(Bytes page, std::uint64_t size) {
  hold(page);
  PageInput head(*this);
  if (head.varint(32) != size || size > most_copied * page.size())
    throw Error("a page of another size than its header says");
  compressed_ = page.subspan(head.at());
  if (decompressed_.size() < size + at_once) decompressed_.resize(size + at_once);
  bytes_ = decompressed_.data();
  size_ = size;
  ready_ = 0;
}

void PageBytes::decompress(std::uint64_t end) {
  end = std::min(size_, std::max(end, ready_ + at_least));
  while (ready_ < end) {
    decompress_short_elements(end);
    if (ready_ < end) decompress_element();
  }
}

/// Elements far from the ends of both the compressed and the decompressed data, which need no checks but of distances.
void PageBytes::decompress_short_elements(std::uint64_t end) {
  const auto less = [](std::uint64_t size, std::uint64_t by) { return size - std::min(size, by); };
  const std::uint8_t* in = compressed_.data();
  const std::uint8_t* const in_end = in + less(compressed_.size(), Element::longest_head + at_once);
  std::uint8_t* const out = decompressed_.data();
  std::uint64_t at = ready_;
  end = std::min(end, less(size_, most_copied));
  while (at < end && in < in_end) {
    const Element element = element_at(in);
    if (element.is_literal) {
      if (element.count > at_once) break;
      std::memcpy(out + at, in + element.head, at_once);
      in += element.head + element.count;
    } else {
      if (element.distance - 1 >= at) refuse();
      copy_again(out + at, element.distance, element.count);
      in += element.head;
    }
    at += element.count;
  }
  compressed_ = {in, compressed_.data() + compressed_.size()};
  ready_ = at;
}

void PageBytes::decompress_element() {
  std::array<std::uint8_t, Element::longest_head> head = {};
  std::ranges::copy(compressed_.first(std::min(compressed_.size(), head.size())), head.begin());
  const Element element = element_at(head.data());
  if (element.head > compressed_.size() || element.count > size_ - ready_) refuse();
  compressed_ = compressed_.subspan(element.head);
  if (element.is_literal) {
    if (element.count > compressed_.size()) refuse();
    std::memcpy(decompressed_.data() + ready_, compressed_.data(), element.count);
    compressed_ = compressed_.subspan(element.count);
  } else {
    if (element.distance - 1 >= ready_) refuse();
    copy_again(decompressed_.data() + ready_, element.distance, element.count);
  }
  ready_ += element.count;
}

void PageBytes::refuse() { throw Error("a page that ends early, or is damaged"); }

}  // namespace linkwise
