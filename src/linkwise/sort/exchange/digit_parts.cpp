#include "linkwise/sort/exchange/digit_parts.hpp"

#include <algorithm>

namespace linkwise {

DigitParts::DigitParts(std::span<const LeadingDigitCounts> counts, std::size_t parts)
    : counts_(counts), digits_(counts.front().digits), received_(parts) {
  std::vector<std::uint64_t> of_digit(digits_);
  std::uint64_t total = 0, before = 0;
  for (const LeadingDigitCounts& source : counts)
    for (std::size_t d = 0; d < digits_; ++d) of_digit[d] += source.count[d];
  for (const std::uint64_t count : of_digit) total += count;
  for (std::size_t d = 0, part = 0; d < digits_; ++d) {
    // A digit goes to the part in which its middle would lie if all were equal.
    while (part + 1 < parts && before + of_digit[d] / 2 >= total * (part + 1) / parts) ++part;
    part_.push_back(static_cast<std::uint8_t>(part));
    begin_.push_back(static_cast<std::uint32_t>(received_[part]));
    received_[part] += of_digit[d];
    before += of_digit[d];
  }
}

DigitPlaces DigitParts::places(std::size_t source) const {
  DigitPlaces places;
  places.digits = static_cast<std::uint32_t>(digits_);
  std::ranges::copy(part_, places.part);
  std::ranges::copy(begin_, places.begin);
  for (std::size_t before = 0; before < source; ++before)
    for (std::size_t d = 0; d < digits_; ++d) places.begin[d] += static_cast<std::uint32_t>(counts_[before].count[d]);
  return places;
}

ReceivedDigits DigitParts::digits(std::size_t part) const {
  const auto [first, end] = std::ranges::equal_range(part_, static_cast<std::uint8_t>(part));
  ReceivedDigits received;
  received.digits = static_cast<std::uint32_t>(digits_);
  received.first = static_cast<std::uint32_t>(first - part_.begin());
  received.end = static_cast<std::uint32_t>(end - part_.begin());
  std::copy(begin_.begin() + received.first, begin_.begin() + received.end, received.begin + received.first);
  std::fill(received.begin + received.end, received.begin + digits_ + 1, static_cast<std::uint32_t>(received_[part]));
  for (const LeadingDigitCounts& source : counts_) {
    received.least = std::min(received.least, source.least);
    received.greatest = std::max(received.greatest, source.greatest);
  }
  return received;
}

}  // namespace linkwise
