#include "linkwise/sort/strategies/leading_digits_sort.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/leading_digits.hpp"
#include "linkwise/sort/exchange/digit_parts.hpp"
#include "linkwise/sort/exchange/splitters.hpp"

namespace linkwise {
namespace {

constexpr double most_uneven = 0.05;  // a part may have so much more than an equal share
constexpr std::uint64_t small_things = 512 << 10;

class LeadingDigitsSort {
 public:
  LeadingDigitsSort(Runtime& runtime, const SortPlan& plan, std::span<const Stream> streams, KeyCoding coding,
                    std::span<const Records> input, bool overwrites, std::span<const MemoryView> checksums)
      : runtime_(runtime),
        plan_(plan),
        streams_(streams),
        coding_(coding),
        input_(input),
        overwrites_(overwrites),
        checksums_(checksums),
        type_(input.front().type),
        parts_each_(overwrites ? 2 : 1) {  // an input may be shorter than its GPU's share, but has room for half of it
    for (const Records& records : input) {
      total_ += records.count;
      most_ = std::max(most_, records.count);
    }
    const double even = static_cast<double>(total_) / static_cast<double>(parts());
    most_part_ = static_cast<std::uint64_t>(even * (1 + most_uneven)) + 64;
    most_ = std::max(most_, most_part_);
  }

  std::optional<std::vector<SortedRecords>> run() {
    if (!may_suit() || !has_memory()) return std::nullopt;
    runtime_.set_phase("partition");
    if (!keys_suit()) return std::nullopt;
    const std::vector<LeadingDigitCounts> counts = count();
    const DigitParts digits(counts, parts());
    if (!fit(digits) || !lay_out(digits)) return std::nullopt;
    runtime_.set_phase("exchange");
    const std::vector<Event> stored = store(counts, digits);
    runtime_.set_phase("sort");
    std::vector<SortedRecords> sorted;
    for (std::size_t g = 0; g < levels_.size(); ++g) sorted.push_back(sort_share(g, digits, stored));
    for (Buffer& buffer : buffers_) runtime_.retire(std::move(buffer));
    return sorted;
  }

 private:
  [[nodiscard]] std::size_t parts() const { return input_.size() * parts_each_; }

  [[nodiscard]] bool may_suit() const {
    if (plan_.device_buckets > 0 || plan_.splitting != Splitting::samples) return false;
    if (parts() > max_destinations || input_.size() > max_segments || !runtime_.peers_can_read(plan_.gpus))
      return false;
    const Kernels& kernels = runtime_.kernels();
    return may_suit_msd_sort(kernels, type_, total_ / parts()) && may_have_leading_digits(kernels, type_, most_);
  }

  // Reserves about what the sort will need, and allocates what counting does.
  bool has_memory() try {
    const Kernels& kernels = runtime_.kernels();
    const std::uint64_t scratch = kernels.leading_digits_scratch_bytes(type_, most_);
    const std::uint64_t records =
        record_bytes(type_, parts_each_ * most_part_) + (overwrites_ ? 0 : record_bytes(type_, most_part_));
    for (std::size_t g = 0; g < input_.size(); ++g) {
      const Place place = streams_[g].place;
      runtime_.reserve(place, records + scratch + kernels.leading_digits_bytes() + small_things);
      const MemoryView digits = allocate(place, kernels.leading_digits_bytes(), "leading digits");
      levels_.push_back({streams_[g], coding_, input_[g], digits, allocate(place, scratch, "sort scratch")});
      numbers_.push_back(allocate(place, sizeof(LeadingDigitCounts) + sizeof(KeySpread), "counters"));
      sample_rooms_.push_back(allocate(place, enough_to_look_at * (type_.key_bytes() + 8), "samples"));
    }
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
  MemoryView allocate(Place place, std::uint64_t bytes, std::string_view label) {
    return buffers_.emplace_back(runtime_.allocate(place, bytes, label)).view();
  }
  [[nodiscard]] MemoryView counts_on(std::size_t gpu) const {
    return numbers_[gpu].slice(0, sizeof(LeadingDigitCounts));
  }
  [[nodiscard]] MemoryView spread_on(std::size_t gpu) const {
    static_assert(sizeof(LeadingDigitCounts) % alignof(KeySpread) == 0);
    return numbers_[gpu].slice(sizeof(LeadingDigitCounts), sizeof(KeySpread));
  }

  // Each GPU samples its own input: others may be unable to read the caller's memory.
  std::vector<MemoryView> sample_all() {
    std::vector<MemoryView> samples;
    std::vector<Event> sampled;
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const std::uint64_t count = samples_of(input_[g].count, total_, enough_to_look_at);
      const MemoryView& room = sample_rooms_[g];
      samples.push_back(room.slice(0, count * type_.key_bytes()));
      const MemoryView tags = room.slice(enough_to_look_at * type_.key_bytes(), 8 * count);
      if (count > 0)
        sample(runtime_, streams_[g], coding_.type, coding_.descending, input_[g].keys, g, 0, samples[g], tags);
      sampled.push_back(runtime_.record(streams_[g]));
    }
    for (const Stream stream : streams_)
      for (const Event event : sampled) runtime_.wait(stream, event);
    return samples;
  }

  // All GPUs see the same sample, but each must have looked before memory is freed.
  bool keys_suit() {
    const std::vector<MemoryView> samples = sample_all();
    std::vector<KeySpread> spreads(levels_.size());
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      look_at_all_keys(runtime_, levels_[g], samples, total_, spread_on(g));
      reads.push_back({streams_[g], spread_on(g), &spreads[g], &even_spread});
    }
    runtime_.read_back(reads);
    return suits_msd_sort(type_, total_, spreads.front());
  }

  std::vector<LeadingDigitCounts> count() {
    std::vector<LeadingDigitCounts> counts(levels_.size()), expected(levels_.size());
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      count_leading_digits(runtime_, levels_[g], counts_on(g));
      const std::uint64_t records = input_[g].count;
      expected[g].digits = parts();
      for (std::size_t p = 0; p < parts(); ++p)
        expected[g].count[p] = records * (p + 1) / parts() - records * p / parts();
      reads.push_back({streams_[g], counts_on(g), &counts[g], &expected[g]});
    }
    runtime_.read_back(reads);
    return counts;
  }

  // A digit that very many keys have makes a part too long.
  [[nodiscard]] bool fit(const DigitParts& digits) const {
    for (std::size_t p = 0; p < parts(); ++p)
      if (digits.received(p) > (overwrites_ ? std::min(most_part_, input_[p / parts_each_].count) : most_part_))
        return false;
    return true;
  }

  // Returns false where memory is scarce.
  bool lay_out(const DigitParts& digits) try {
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const Place place = streams_[g].place;
      std::uint64_t share = 0;
      for (std::size_t p = g * parts_each_; p < (g + 1) * parts_each_; ++p) share += digits.received(p);
      memory_.push_back(runtime_.allocate(place, record_bytes(type_, share), "sorted records"));
      const Records all = records_in(memory_.back().view(), type_, share);
      std::uint64_t first = 0;
      for (std::size_t p = g * parts_each_; p < (g + 1) * parts_each_; ++p) {
        to_.push_back(all.slice(first, digits.received(p)));
        first += digits.received(p);
      }
      shares_.push_back(all);
      if (!overwrites_) rooms_.push_back(records_in(allocate(place, record_bytes(type_, share), "room"), type_, share));
    }
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }

  std::vector<Event> store(const std::vector<LeadingDigitCounts>& counts, const DigitParts& digits) {
    std::vector<Event> stored;
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const MemoryView checksum = checksums_.empty() ? MemoryView{} : checksums_[g];
      store_leading_digits(runtime_, levels_[g], counts[g], digits.places(g), to_, checksum);
      stored.push_back(runtime_.record(streams_[g]));
    }
    return stored;
  }

  // The parts of a GPU share its scratch and room.
  SortedRecords sort_share(std::size_t g, const DigitParts& digits, const std::vector<Event>& stored) {
    for (const Event event : stored) runtime_.wait(streams_[g], event);
    const Records& room = overwrites_ ? input_[g] : rooms_[g];
    for (std::size_t p = g * parts_each_; p < (g + 1) * parts_each_; ++p)
      if (to_[p].count > 0)
        sort_received_digits(runtime_, levels_[g], digits.digits(p), to_[p], room.slice(0, to_[p].count));
    return {std::move(memory_[g]), shares_[g]};
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  std::span<const Stream> streams_;
  KeyCoding coding_;
  std::span<const Records> input_;
  bool overwrites_;
  std::span<const MemoryView> checksums_;
  RecordType type_;
  std::uint64_t total_ = 0;
  std::uint64_t most_part_ = 0, most_ = 0;  // records of a part, and of a part or source, at most
  std::size_t parts_each_;                  // per GPU
  std::vector<Buffer> buffers_, memory_;    // memory_: of the result
  std::vector<LeadingDigits> levels_;
  std::vector<MemoryView> numbers_;       // each LeadingDigitCounts and a KeySpread
  std::vector<MemoryView> sample_rooms_;  // codes, and tags behind them
  std::vector<Records> to_;               // the parts
  std::vector<Records> shares_, rooms_;
};

}  // namespace

std::optional<std::vector<SortedRecords>> sort_by_leading_digits(Runtime& runtime, const SortPlan& plan,
                                                                 std::span<const Stream> streams, KeyCoding coding,
                                                                 std::span<const Records> input, bool overwrites,
                                                                 std::span<const MemoryView> checksums) {
  return LeadingDigitsSort(runtime, plan, streams, coding, input, overwrites, checksums).run();
}

}  // namespace linkwise
