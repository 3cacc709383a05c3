#include "linkwise/sort/verify.hpp"

#include "linkwise/error.hpp"

namespace linkwise {
namespace {
enum Number { sum_before, sum_after, violations, num_numbers };
}

SortVerifier::SortVerifier(Runtime& runtime, std::vector<Chunk>& chunks) : runtime_(runtime), chunks_(chunks) {
  for (const Chunk& chunk : chunks)
    numbers_.push_back(runtime.allocate(chunk.place(), 8 * num_numbers, "verification"));
}

MemoryView SortVerifier::number(std::size_t chunk, int which) const {
  return numbers_[chunk].slice(8 * static_cast<std::uint64_t>(which), 8);
}

void SortVerifier::before() {
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    checksum(runtime_, chunks_[c].stream(), chunks_[c].records(), number(c, sum_before));
}

void SortVerifier::check() {
  struct Result {
    std::uint64_t numbers[num_numbers] = {};
    std::uint64_t first = 0, last = 0;
  };
  std::vector<Result> results(chunks_.size());
  std::vector<ReadBack> reads;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Chunk& chunk = chunks_[c];
    const Records records = chunk.records();
    checksum(runtime_, chunk.stream(), records, number(c, sum_after));
    check_order(runtime_, chunk.stream(), chunk.type().key, records.keys, number(c, violations));
    reads.push_back({chunk.stream(), numbers_[c].slice(0, 8 * num_numbers), results[c].numbers});
    if (records.count == 0) continue;
    reads.push_back({chunk.stream(), records.slice(0, 1).keys, &results[c].first});
    reads.push_back({chunk.stream(), records.slice(records.count - 1, 1).keys, &results[c].last});
  }
  runtime_.read_back(reads);
  ResultCheck check(chunks_.front().type().key);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    check.came_in(results[c].numbers[sum_before]);
    if (chunks_[c].count() > 0)
      check.came_out(chunks_[c].place(), results[c].numbers[sum_after], results[c].numbers[violations],
                     results[c].first, results[c].last);
  }
  check.finish();
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
}

void ResultCheck::finish() const {
  if (change_ != 0)
    throw CorruptDataError(
        "the sorted records are not those that came in (their checksums differ); check the links between the GPUs and "
        "run again");
}

}  // namespace linkwise
