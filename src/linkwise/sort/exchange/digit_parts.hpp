// Which part of a sort takes which leading digits, and where each source's records go in it.
#pragma once

#include <span>
#include <vector>

#include "linkwise/primitives/leading_digits_steps.hpp"

namespace linkwise {

/// Assigns consecutive digits to parts, so that each border is as near as possible to that of equal parts. In a part,
/// records are in the order of their digits, and of the sources.
class DigitParts {
 public:
  /// `counts`: those of all sources, which must have the same digits.
  DigitParts(std::span<const LeadingDigitCounts> counts, std::size_t parts);

  /// Records of all sources together.
  [[nodiscard]] std::uint64_t received(std::size_t part) const { return received_[part]; }
  [[nodiscard]] DigitPlaces places(std::size_t source) const;
  [[nodiscard]] ReceivedDigits digits(std::size_t part) const;

 private:
  std::span<const LeadingDigitCounts> counts_;
  std::size_t digits_;
  std::vector<std::uint8_t> part_;    // of each digit
  std::vector<std::uint32_t> begin_;  // of each digit in its part
  std::vector<std::uint64_t> received_;
};

}  // namespace linkwise
