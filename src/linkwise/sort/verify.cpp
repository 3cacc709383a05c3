#include "linkwise/sort/verify.hpp"

#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {

SortVerifier::SortVerifier(Runtime& runtime, std::vector<Stream> streams, KeyCoding coding)
    : runtime_(runtime), streams_(std::move(streams)), coding_(coding) {
  for (const Stream stream : streams_)
    numbers_.push_back(runtime.allocate(stream.place, sizeof(Numbers), "verification"));
}

void SortVerifier::before(std::span<const Records> input) {
  for (std::size_t p = 0; p < input.size(); ++p) checksum(runtime_, streams_[p], input[p], came_in(p));
}

void SortVerifier::look_at(std::span<const Records> sorted) {
  is_empty_.clear();
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    is_empty_.push_back(sorted[p].count == 0);
    const MemoryView came_out = numbers_[p].slice(offsetof(Numbers, came_out), sizeof(PartNumbers));
    if (!is_empty_[p]) check_part(runtime_, streams_[p], coding_, sorted[p], came_out);
  }
}

std::vector<SortVerifier::Numbers> SortVerifier::read() {
  std::vector<Numbers> numbers(is_empty_.size());
  std::vector<ReadBack> reads;
  for (std::size_t p = 0; p < numbers.size(); ++p) reads.push_back({streams_[p], numbers_[p].view(), &numbers[p]});
  runtime_.read_back(reads);
  return numbers;
}

std::uint64_t SortVerifier::finish() {
  const std::vector<Numbers> numbers = read();
  ResultCheck check(key_width(coding_.type));
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    check.came_in(numbers[p].came_in);
    if (!is_empty_[p]) check.came_out(streams_[p].place, numbers[p].came_out);
  }
  check.finish();
  return check.checksum();
}

void SortVerifier::check_copies(std::span<const Records> sorted) {
  look_at(sorted);
  const std::vector<Numbers> numbers = read();
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    ResultCheck check(key_width(coding_.type));
    for (const Numbers& part : numbers) check.came_in(part.came_in);
    if (!is_empty_[p]) check.came_out(streams_[p].place, numbers[p].came_out);
    check.finish();
  }
}

void ResultCheck::came_out(Place place, const PartNumbers& part) {
  const std::string where =
      "the sorted data " + (place.is_gpu() ? "on GPU " + std::to_string(place.index) : "in host memory");
  if (part.violations > 0)
    throw CorruptDataError(where + " is out of order in " + std::to_string(part.violations) +
                           " places; check the GPU's memory and run again");
  if ((part.first_key & mask_) < last_key_)
    throw CorruptDataError(where + " begins before what precedes it ends; check the links and run again");
  last_key_ = part.last_key & mask_;
  change_ += part.checksum;
  checksum_ += part.checksum;
}

void ResultCheck::finish() const {
  if (change_ != 0)
    throw CorruptDataError(
        "the sorted records are not those that came in (their checksums differ); check the links between the GPUs and "
        "run again");
}

}  // namespace linkwise
