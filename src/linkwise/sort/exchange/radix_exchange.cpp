#include "linkwise/sort/exchange/radix_exchange.hpp"

#include <limits>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/sort/exchange/msb_cuts.hpp"
#include "linkwise/transfer/exchange.hpp"

namespace linkwise {
namespace {

// A sample's tag has its source in the upper bits and its position there in the lower bits.
constexpr int position_bits = 48;
constexpr std::uint64_t position_mask = (1ULL << position_bits) - 1;

// Uses histograms if the plan says so and they can; otherwise samples every source in proportion to its size.
std::vector<Cut> choose_cuts_of(Runtime& runtime, const SortPlan& plan, const std::vector<ExchangeInput>& sources,
                                int parts) {
  const KeyWidth width = sources.front().records.type.key;
  if (plan.splitting == Splitting::msb) {
    std::vector<KeySource> keys;
    for (const ExchangeInput& source : sources) keys.push_back({source.stream, source.records.keys});
    if (auto cuts = msb_cuts(runtime, width, keys, parts)) return *std::move(cuts);
  }
  std::uint64_t total = 0;
  for (const ExchangeInput& source : sources) total += source.records.count;
  std::vector<SampleSource> samples;
  for (const ExchangeInput& source : sources)
    samples.push_back({source.stream, source.records.keys, samples_of(source.records.count, total, plan.samples),
                       samples.size() << position_bits});
  return choose_cuts(runtime, code_type(width), /*descending=*/false, samples, parts);
}

// The splitters for a source. Its records that equal a cut's key go left of the cut if it comes before the cut's
// source, right if it comes after that, and by position if it is the cut's source.
Splitters splitters_for(std::size_t source, const std::vector<Cut>& cuts) {
  Splitters splitters;
  for (const Cut& cut : cuts) {
    const std::uint64_t owner = cut.tag >> position_bits;
    splitters.key[splitters.count] = cut.code;
    splitters.position[splitters.count++] = source == owner  ? (cut.tag & position_mask)
                                            : source < owner ? std::numeric_limits<std::uint64_t>::max()
                                                             : 0;
  }
  return splitters;
}

}  // namespace

RadixExchange::RadixExchange(Runtime& runtime, const SortPlan& plan, std::vector<ExchangeInput> sources, int parts)
    : runtime_(runtime), sources_(std::move(sources)), parts_(parts) {
  if (parts > max_destinations)
    throw UsageError("a radix sort has at most " + std::to_string(max_destinations) + " GPUs, or buckets in all");
  if (parts > 1) cuts_ = choose_cuts_of(runtime, plan, sources_, parts);
  for (std::size_t s = 0; s < sources_.size(); ++s) sources_[s].splitters = splitters_for(s, cuts_);
  counts_ = count_parts(runtime, sources_, static_cast<std::size_t>(parts));
  offsets_ = receive_offsets(counts_);
  received_.resize(static_cast<std::size_t>(parts), 0);
  for (const auto& row : counts_)
    for (std::size_t part = 0; part < row.size(); ++part) received_[part] += row[part];
}

BitRange RadixExchange::bits(int part) const {
  return open_bits(cuts_, static_cast<std::size_t>(part), sources_.front().records.type.key_bits());
}

std::vector<Event> RadixExchange::store(std::span<const Records> to) {
  std::vector<Event> sent;
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    std::vector<Records> slices;
    for (std::size_t part = 0; part < to.size(); ++part)
      slices.push_back(to[part].slice(offsets_[s][part], counts_[s][part]));
    partition(runtime_, sources_[s].stream, sources_[s].records, sources_[s].splitters, sources_[s].scratch, slices);
    sent.push_back(runtime_.record(sources_[s].stream));
  }
  return sent;
}

std::vector<Event> RadixExchange::partition_and_copy(Router& router, std::span<const Records> partitioned,
                                                     std::span<const Records> to) {
  std::vector<std::vector<Records>> slices(sources_.size());
  std::vector<Event> ready;
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    std::uint64_t first = 0;
    for (const std::uint64_t count : counts_[s]) {
      slices[s].push_back(partitioned[s].slice(first, count));
      first += count;
    }
    partition(runtime_, sources_[s].stream, sources_[s].records, sources_[s].splitters, sources_[s].scratch, slices[s]);
    ready.push_back(runtime_.record(sources_[s].stream));
  }
  runtime_.set_phase("exchange");
  // Source s starts with its own parts, so that no destination is every source's first.
  std::vector<Shipment> shipments;
  for (std::size_t step = 0; step < to.size(); ++step)
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const std::size_t part = (s * to.size() / sources_.size() + step) % to.size();
      shipments.push_back({slices[s][part], to[part].slice(offsets_[s][part], counts_[s][part])});
    }
  return exchange_by_copies(runtime_, router, shipments, ready);
}

}  // namespace linkwise
