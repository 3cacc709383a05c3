#include "linkwise/sort/strategies/leading_digits_sort.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/leading_digits.hpp"
#include "linkwise/sort/exchange/digit_parts.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/exchange/staged_digits.hpp"

namespace linkwise {
namespace {

constexpr double most_uneven = 0.05;  // a GPU, or a part, may have so much of an equal share more than is equal
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
        type_(input.front().type) {
    for (const Records& records : input) {
      total_ += records.count;
      longest_input_ = std::max(longest_input_, records.count);
    }
  }

  std::optional<std::vector<SortedRecords>> run() {
    choose_parts(/*may_stage=*/true);
    if (!may_suit()) return std::nullopt;
    if (!has_memory()) {
      if (!stages_ || !overwrites_) return std::nullopt;  // without stages, the room would take more than they do
      choose_parts(/*may_stage=*/false);
      if (!may_suit() || !has_memory()) return std::nullopt;
    }
    runtime_.set_phase("partition");
    if (!keys_suit()) return std::nullopt;
    const std::vector<LeadingDigitCounts> counts = count();
    const DigitParts digits(counts, parts());
    if (!fit(digits) || !lay_out(counts, digits)) return std::nullopt;
    runtime_.set_phase("exchange");
    const std::vector<Event> stored = store(counts);
    runtime_.set_phase("sort");
    sort_parts(0, digits);
    const std::vector<std::vector<Event>> sent = send(stored);  // while the first parts are sorted
    for (std::size_t which = 1; which < parts_each_; ++which) {
      wait_for_others(sent[which]);
      sort_parts(which, digits);
    }
    std::vector<SortedRecords> sorted;
    for (std::size_t g = 0; g < levels_.size(); ++g) sorted.push_back({std::move(memory_[g]), shares_[g]});
    for (Buffer& buffer : buffers_) runtime_.retire(std::move(buffer));
    return sorted;
  }

 private:
  // All but a GPU's first part are staged where each part has enough records; the more GPUs there are, the more pieces
  // are sent, and the more must a piece have. Kernels store columns of values in short runs, which the links take
  // slowly: of records with values two thirds are staged, of keys alone a half.
  void choose_parts(bool may_stage) {
    const std::size_t staged = type_.value == ValueWidth::none ? 2 : 3;
    const std::uint64_t worth = std::max(staged, input_.size()) * runtime_.kernels().fewest_for_msd_sort(type_);
    stages_ = may_stage && staged * input_.size() < max_destinations && total_ / input_.size() >= worth;
    // An input that is overwritten may be shorter than its GPU's share, but has room for half of it.
    parts_each_ = stages_ ? staged : overwrites_ ? 2 : 1;
    const double share = static_cast<double>(total_) / static_cast<double>(input_.size());
    most_share_ = static_cast<std::uint64_t>(share * (1 + most_uneven)) + 64;
    most_part_ = static_cast<std::uint64_t>(share * (1 / static_cast<double>(parts_each_) + most_uneven)) + 64;
    most_ = std::max(longest_input_, most_part_);
  }
  [[nodiscard]] std::size_t parts() const { return input_.size() * parts_each_; }
  [[nodiscard]] std::size_t part_of(std::size_t gpu, std::size_t which) const { return gpu * parts_each_ + which; }

  [[nodiscard]] bool may_suit() const {
    if (plan_.device_buckets > 0 || plan_.splitting != Splitting::samples) return false;
    if (parts() > max_destinations || input_.size() > max_segments || !runtime_.reach_each_other(plan_.gpus))
      return false;
    const Kernels& kernels = runtime_.kernels();
    return may_suit_msd_sort(kernels, type_, total_ / parts()) && may_have_leading_digits(kernels, type_, most_);
  }

  // Reserves about what the sort will need, and allocates what counting does.
  bool has_memory() try {
    const Kernels& kernels = runtime_.kernels();
    const std::uint64_t scratch = kernels.leading_digits_scratch_bytes(type_, most_);
    const std::uint64_t records = record_bytes(type_, most_share_) +
                                  (overwrites_ ? 0 : record_bytes(type_, most_part_)) +
                                  record_bytes(type_, most_staged());
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
    levels_.clear();
    numbers_.clear();
    sample_rooms_.clear();
    buffers_.clear();
    return false;
  }
  // About as many records as a source stages at most.
  [[nodiscard]] std::uint64_t most_staged() const {
    if (!stages_) return 0;
    const std::size_t others = input_.size() - 1;
    return longest_input_ * (parts_each_ - 1) / parts_each_ * others / input_.size() + most_part_ / 16;
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
    wait_for_others(sampled);
    return samples;
  }
  // `events`: one of each GPU.
  void wait_for_others(std::span<const Event> events, Site site = Site::current()) {
    for (std::size_t g = 0; g < streams_.size(); ++g)
      for (std::size_t other = 0; other < events.size(); ++other)
        if (other != g) runtime_.wait(streams_[g], events[other], site);
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
    for (std::size_t g = 0; g < input_.size(); ++g) {
      std::uint64_t share = 0;
      for (std::size_t which = 0; which < parts_each_; ++which) {
        const std::uint64_t received = digits.received(part_of(g, which));
        if (received > (overwrites_ ? std::min(most_part_, input_[g].count) : most_part_)) return false;
        share += received;
      }
      if (share > most_share_) return false;
    }
    return true;
  }

  // Returns false where memory is scarce.
  bool lay_out(const std::vector<LeadingDigitCounts>& counts, const DigitParts& digits) try {
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const Place place = streams_[g].place;
      std::uint64_t share = 0, longest = 0;
      for (std::size_t which = 0; which < parts_each_; ++which) {
        share += digits.received(part_of(g, which));
        longest = std::max(longest, digits.received(part_of(g, which)));
      }
      memory_.push_back(runtime_.allocate(place, record_bytes(type_, share), "sorted records"));
      shares_.push_back(records_in(memory_.back().view(), type_, share));
      std::uint64_t first = 0;
      for (std::size_t which = 0; which < parts_each_; ++which) {
        const std::uint64_t received = digits.received(part_of(g, which));
        to_.push_back(shares_.back().slice(first, received));
        first += received;
      }
      rooms_.push_back(overwrites_ ? input_[g] : allocate_records(place, longest, "room"));
      staged_digits_.emplace_back(counts[g], digits.places(g), staged_by(g));
      if (stages_) staged_.push_back(allocate_records(place, staged_digits_.back().count(), "staged records"));
    }
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
  Records allocate_records(Place place, std::uint64_t count, std::string_view label) {
    return records_in(allocate(place, record_bytes(type_, count), label), type_, count);
  }
  // All but the first part of every other GPU.
  [[nodiscard]] std::vector<bool> staged_by(std::size_t gpu) const {
    std::vector<bool> is_staged(parts());
    for (std::size_t part = 0; stages_ && part < parts(); ++part)
      is_staged[part] = part / parts_each_ != gpu && part % parts_each_ > 0;
    return is_staged;
  }

  std::vector<Event> store(const std::vector<LeadingDigitCounts>& counts) {
    std::vector<Event> stored;
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const MemoryView checksum = checksums_.empty() ? MemoryView{} : checksums_[g];
      std::vector<Records> to = to_;
      if (stages_) to.push_back(staged_[g]);
      store_leading_digits(runtime_, levels_[g], counts[g], staged_digits_[g].places(), to, checksum);
      stored.push_back(runtime_.record(streams_[g]));
    }
    wait_for_others(stored);
    return stored;
  }

  // Sends what is staged, the second parts first, each GPU beginning with the next one, so that no two send to the
  // same. Returns events for each of a GPU's parts.
  std::vector<std::vector<Event>> send(std::span<const Event> stored) {
    std::vector<std::vector<Event>> sent(parts_each_);
    for (std::size_t g = 0; stages_ && g < levels_.size(); ++g) {
      const Stream outgoing = runtime_.stream(streams_[g].place, "outgoing");
      runtime_.wait(outgoing, stored[g]);
      for (std::size_t which = 1; which < parts_each_; ++which) {
        for (std::size_t distance = 1; distance < levels_.size(); ++distance) {
          const std::size_t part = part_of((g + distance) % levels_.size(), which);
          staged_digits_[g].send(runtime_, outgoing, staged_[g], static_cast<std::uint32_t>(part), to_[part]);
        }
        sent[which].push_back(runtime_.record(outgoing));
      }
    }
    return sent;
  }

  // The parts of a GPU share its scratch and room.
  void sort_parts(std::size_t which, const DigitParts& digits) {
    for (std::size_t g = 0; g < levels_.size(); ++g) {
      const std::size_t part = part_of(g, which);
      if (to_[part].count == 0) continue;
      sort_received_digits(runtime_, levels_[g], digits.digits(part), to_[part], rooms_[g].slice(0, to_[part].count));
    }
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  std::span<const Stream> streams_;
  KeyCoding coding_;
  std::span<const Records> input_;
  bool overwrites_;
  std::span<const MemoryView> checksums_;
  RecordType type_;
  std::uint64_t total_ = 0, longest_input_ = 0;
  std::uint64_t most_share_ = 0, most_part_ = 0;  // records at most
  std::uint64_t most_ = 0;                        // of a part or source
  bool stages_ = false;                           // whether all but a GPU's first part are sent while it sorts
  std::size_t parts_each_ = 1;                    // per GPU
  std::vector<Buffer> buffers_, memory_;          // memory_: of the result
  std::vector<LeadingDigits> levels_;
  std::vector<MemoryView> numbers_;       // each LeadingDigitCounts and a KeySpread
  std::vector<MemoryView> sample_rooms_;  // codes, and tags behind them
  std::vector<Records> to_;               // the parts
  std::vector<Records> shares_, rooms_, staged_;
  std::vector<StagedDigits> staged_digits_;
};

}  // namespace

std::optional<std::vector<SortedRecords>> sort_by_leading_digits(Runtime& runtime, const SortPlan& plan,
                                                                 std::span<const Stream> streams, KeyCoding coding,
                                                                 std::span<const Records> input, bool overwrites,
                                                                 std::span<const MemoryView> checksums) {
  return LeadingDigitsSort(runtime, plan, streams, coding, input, overwrites, checksums).run();
}

}  // namespace linkwise
