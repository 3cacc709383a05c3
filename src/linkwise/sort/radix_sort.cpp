#include "linkwise/sort/radix_sort.hpp"

#include <algorithm>
#include <limits>

#include "linkwise/sort/splitters.hpp"
#include "linkwise/transfer/exchange.hpp"

namespace linkwise {
namespace {

// A sample's tag says where it came from: the source above, the position in it below.
constexpr int position_bits = 48;
constexpr std::uint64_t position_mask = (1ULL << position_bits) - 1;

std::uint64_t total_count(const std::vector<Chunk>& chunks) {
  std::uint64_t sum = 0;
  for (const Chunk& chunk : chunks) sum += chunk.count();
  return sum;
}

// Samples every chunk in proportion to its size.
std::vector<Cut> choose_cuts(Runtime& runtime, const SortPlan& plan, const std::vector<Chunk>& chunks) {
  const std::uint64_t total = total_count(chunks);
  std::vector<SampleSource> sources;
  for (std::size_t s = 0; s < chunks.size(); ++s)
    sources.push_back({chunks[s].stream(), chunks[s].records().keys, samples_of(chunks[s].count(), total, plan.samples),
                       s << position_bits});
  const KeyType codes = chunks.front().type().key == KeyWidth::k32 ? KeyType::u32 : KeyType::u64;
  return choose_cuts(runtime, codes, /*descending=*/false, sources, static_cast<int>(chunks.size()));
}

// The cuts as a source sees them: its records of a cut's key go left of the cut if it is an earlier source
// than the cut's, right if it is a later one, and by position if it is the same.
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

// counts[s][d]: records of source s for destination d.
std::vector<std::vector<std::uint64_t>> count_parts(Runtime& runtime, std::vector<Chunk>& chunks,
                                                    const std::vector<Splitters>& splitters) {
  const std::size_t gpus = chunks.size();
  std::vector<std::vector<std::uint64_t>> counts(gpus, std::vector<std::uint64_t>(gpus)), expected = counts;
  std::vector<ReadBack> reads;
  for (std::size_t s = 0; s < gpus; ++s) {
    const MemoryView totals = chunks[s].counters().slice(0, 8 * gpus);
    partition_count(runtime, chunks[s].stream(), chunks[s].records(), splitters[s], chunks[s].scratch(), totals);
    for (std::size_t d = 0; d < gpus; ++d)
      expected[s][d] = chunks[s].count() * (d + 1) / gpus - chunks[s].count() * d / gpus;
    reads.push_back({chunks[s].stream(), totals, counts[s].data(), expected[s].data()});
  }
  runtime.read_back(reads);
  return counts;
}

// The partition kernel stores straight into the destinations.
void exchange_fused(Runtime& runtime, std::vector<Chunk>& chunks, const std::vector<Splitters>& splitters,
                    const std::vector<std::vector<std::uint64_t>>& counts, const std::vector<std::uint64_t>& received) {
  const auto offsets = receive_offsets(counts);
  runtime.set_phase("exchange");
  std::vector<Event> sent;
  for (std::size_t s = 0; s < chunks.size(); ++s) {
    std::vector<Records> parts;
    for (std::size_t d = 0; d < chunks.size(); ++d)
      parts.push_back(chunks[d].other(received[d]).slice(offsets[s][d], counts[s][d]));
    partition(runtime, chunks[s].stream(), chunks[s].records(), splitters[s], chunks[s].scratch(), parts);
    sent.push_back(runtime.record(chunks[s].stream()));
  }
  for (std::size_t d = 0; d < chunks.size(); ++d) {
    for (const Event event : sent) runtime.wait(chunks[d].stream(), event);
    chunks[d].flip(received[d]);
  }
}

// Partition locally into the other buffers, then copy from there back into the current ones of the
// destinations, once nobody partitions out of them any more.
void exchange_by_partition_and_copies(Runtime& runtime, std::vector<Chunk>& chunks,
                                      const std::vector<Splitters>& splitters,
                                      const std::vector<std::vector<std::uint64_t>>& counts,
                                      const std::vector<std::uint64_t>& received) {
  const auto offsets = receive_offsets(counts);
  std::vector<std::vector<Records>> parts(chunks.size());
  std::vector<Event> partitioned;
  for (std::size_t s = 0; s < chunks.size(); ++s) {
    const Records all = chunks[s].other(chunks[s].count());
    std::uint64_t first = 0;
    for (const std::uint64_t count : counts[s]) {
      parts[s].push_back(all.slice(first, count));
      first += count;
    }
    partition(runtime, chunks[s].stream(), chunks[s].records(), splitters[s], chunks[s].scratch(), parts[s]);
    partitioned.push_back(runtime.record(chunks[s].stream()));
  }
  runtime.set_phase("exchange");
  for (Chunk& chunk : chunks) chunk.flip(chunk.count());  // to the partitioned records
  // Source s starts with its own successor, so that no destination is everyone's first.
  std::vector<Shipment> shipments;
  for (std::size_t step = 0; step < chunks.size(); ++step)
    for (std::size_t s = 0; s < chunks.size(); ++s) {
      const std::size_t d = (s + step) % chunks.size();
      shipments.push_back(
          {chunks[s].stream(), parts[s][d], chunks[d].other(received[d]).slice(offsets[s][d], counts[s][d])});
    }
  const std::vector<Event> sent = exchange_by_copies(runtime, shipments, partitioned);
  for (std::size_t d = 0; d < chunks.size(); ++d) {
    for (const Event event : sent) runtime.wait(chunks[d].stream(), event);
    chunks[d].flip(received[d]);
  }
}

}  // namespace

void radix_sort(Runtime& runtime, const SortPlan& plan, std::vector<Chunk>& chunks) {
  if (total_count(chunks) == 0) return;
  if (chunks.size() > max_destinations)
    throw UsageError("radix sort runs on at most " + std::to_string(max_destinations) + " GPUs");
  runtime.set_phase("partition");
  const std::vector<Cut> cuts = choose_cuts(runtime, plan, chunks);
  std::vector<Splitters> splitters;
  for (std::size_t s = 0; s < chunks.size(); ++s) splitters.push_back(splitters_for(s, cuts));
  const auto counts = count_parts(runtime, chunks, splitters);
  std::vector<std::uint64_t> received(chunks.size(), 0);
  for (const auto& row : counts)
    for (std::size_t d = 0; d < row.size(); ++d) received[d] += row[d];
  if (plan.exchange == Exchange::fused) exchange_fused(runtime, chunks, splitters, counts, received);
  else exchange_by_partition_and_copies(runtime, chunks, splitters, counts, received);
  runtime.set_phase("sort");
  for (std::size_t d = 0; d < chunks.size(); ++d)
    sort_locally(runtime, chunks[d], open_bits(cuts, d, chunks[d].type().key_bits()));
}

}  // namespace linkwise
