// Digits that a source stores in its own memory first, in order, and sends to other GPUs while these sort what they
// have received: copy engines then cross the links, and the processors go on.
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/primitives/leading_digits_steps.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

class StagedDigits {
 public:
  /// `counts` and `places`: the source's. `is_staged`: for each part, whether its digits are staged.
  StagedDigits(const LeadingDigitCounts& counts, const DigitPlaces& places, const std::vector<bool>& is_staged);

  /// Records that are staged.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Where the source's records are stored: the staged ones in an array that follows the parts.
  [[nodiscard]] const DigitPlaces& places() const { return places_; }
  /// Copies the staged records of a part to their places in it.
  void send(Runtime& runtime, Stream stream, const Records& staged, std::uint32_t part, const Records& to) const;

 private:
  struct Run {
    std::uint32_t part;
    std::uint64_t begin;   // in the part
    std::uint64_t staged;  // where it begins among the staged records
    std::uint64_t count;
  };

  DigitPlaces places_;
  std::vector<Run> runs_;
  std::uint64_t count_ = 0;
};

}  // namespace linkwise
