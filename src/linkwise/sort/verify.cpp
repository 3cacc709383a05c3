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

std::vector<SortVerifier::Numbers> SortVerifier::read(std::span<const Records> sorted) {
  std::vector<Numbers> numbers(sorted.size());
  std::vector<ReadBack> reads;
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    const MemoryView came_out = numbers_[p].slice(offsetof(Numbers, came_out), sizeof(PartNumbers));
    if (sorted[p].count > 0) check_part(runtime_, streams_[p], coding_, sorted[p], came_out);
    reads.push_back({streams_[p], numbers_[p].view(), &numbers[p]});
  }
  runtime_.read_back(reads);
  return numbers;
}

std::uint64_t SortVerifier::check(std::span<const Records> sorted) {
  const std::vector<Numbers> numbers = read(sorted);
  ResultCheck check(sorted.front().type.key);
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    check.came_in(numbers[p].came_in);
    if (sorted[p].count > 0) check.came_out(streams_[p].place, numbers[p].came_out);
  }
  check.finish();
  return check.checksum();
}

void SortVerifier::check_copies(std::span<const Records> sorted) {
  const std::vector<Numbers> numbers = read(sorted);
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    ResultCheck check(sorted[p].type.key);
    for (const Numbers& part : numbers) check.came_in(part.came_in);
    if (sorted[p].count > 0) check.came_out(streams_[p].place, numbers[p].came_out);
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
