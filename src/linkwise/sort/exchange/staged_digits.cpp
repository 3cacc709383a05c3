#include "linkwise/sort/exchange/staged_digits.hpp"

namespace linkwise {

StagedDigits::StagedDigits(const LeadingDigitCounts& counts, const DigitPlaces& places,
                           const std::vector<bool>& is_staged)
    : places_(places) {
  for (std::uint32_t d = 0; d < places.digits; ++d) {
    const std::uint32_t part = places.part[d];
    if (!is_staged[part]) continue;
    if (counts.count[d] > 0) runs_.push_back({part, places.begin[d], count_, counts.count[d]});
    places_.part[d] = static_cast<std::uint8_t>(is_staged.size());
    places_.begin[d] = static_cast<std::uint32_t>(count_);
    count_ += counts.count[d];
  }
}

void StagedDigits::send(Runtime& runtime, Stream stream, const Records& staged, std::uint32_t part,
                        const Records& to) const {
  std::vector<CopyPiece> pieces;
  for (const Run& run : runs_) {
    if (run.part != part) continue;
    const Records target = to.slice(run.begin, run.count), source = staged.slice(run.staged, run.count);
    pieces.push_back({target.keys, source.keys});
    if (to.type.value != ValueWidth::none) pieces.push_back({target.values, source.values});
  }
  runtime.copy_pieces(stream, pieces);
}

}  // namespace linkwise
