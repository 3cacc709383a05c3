#include "linkwise/sort/verify.hpp"

#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {
enum Number { sum_before, sum_after, violations, num_numbers };
}

SortVerifier::SortVerifier(Runtime& runtime, std::vector<Stream> streams)
    : runtime_(runtime), streams_(std::move(streams)) {
  for (const Stream stream : streams_)
    numbers_.push_back(runtime.allocate(stream.place, 8 * num_numbers, "verification"));
}

MemoryView SortVerifier::number(std::size_t part, int which) const {
  return numbers_[part].slice(8 * static_cast<std::uint64_t>(which), 8);
}

void SortVerifier::before(std::span<const Records> input) {
  for (std::size_t p = 0; p < input.size(); ++p) checksum(runtime_, streams_[p], input[p], number(p, sum_before));
}

std::uint64_t SortVerifier::check(std::span<const Records> sorted) {
  struct Result {
    std::uint64_t numbers[num_numbers] = {};
    std::uint64_t first = 0, last = 0;
  };
  std::vector<Result> results(sorted.size());
  std::vector<ReadBack> reads;
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    const Records& records = sorted[p];
    checksum(runtime_, streams_[p], records, number(p, sum_after));
    check_order(runtime_, streams_[p], records.type.key, records.keys, number(p, violations));
    reads.push_back({streams_[p], numbers_[p].slice(0, 8 * num_numbers), results[p].numbers});
    if (records.count == 0) continue;
    reads.push_back({streams_[p], records.slice(0, 1).keys, &results[p].first});
    reads.push_back({streams_[p], records.slice(records.count - 1, 1).keys, &results[p].last});
  }
  runtime_.read_back(reads);
  ResultCheck check(sorted.front().type.key);
  for (std::size_t p = 0; p < sorted.size(); ++p) {
    check.came_in(results[p].numbers[sum_before]);
    if (sorted[p].count > 0)
      check.came_out(streams_[p].place, results[p].numbers[sum_after], results[p].numbers[violations], results[p].first,
                     results[p].last);
  }
  check.finish();
  return check.checksum();
}

void ResultCheck::came_out(Place place, std::uint64_t checksum, std::uint64_t violations, std::uint64_t first_key,
                           std::uint64_t last_key) {
  const std::string where = "the sorted data on GPU " + std::to_string(place.index);
  if (violations > 0)
    throw CorruptDataError(where + " is out of order in " + std::to_string(violations) +
                           " places; check the GPU's memory and run again");
  if ((first_key & mask_) < last_key_)
    throw CorruptDataError(where + " begins before what precedes it ends; check the links and run again");
  last_key_ = last_key & mask_;
  change_ += checksum;
  checksum_ += checksum;
}

void ResultCheck::finish() const {
  if (change_ != 0)
    throw CorruptDataError(
        "the sorted records are not those that came in (their checksums differ); check the links between the GPUs and "
        "run again");
}

}  // namespace linkwise
