#include "linkwise/sort/exchange/splitters.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "linkwise/primitives/gathering.hpp"

namespace linkwise {

double sampling_error(std::uint64_t parts, std::uint64_t samples) {
  return 5 * std::sqrt(static_cast<double>(parts) / static_cast<double>(samples));
}

std::uint64_t sample_bytes(const Kernels& kernels, KeyWidth width, std::uint64_t samples) {
  // All samples twice, the leader's own once more, and scratch for sorting them; rounded up for alignment.
  const RecordType type = Samples::type(width);
  return 3 * record_bytes(type, samples) + kernels.sort_scratch_bytes(type, samples) + 8192;
}

Samples sort_samples(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources) {
  Samples samples = gather_samples(runtime, type, descending, sources);
  const Records gathered = samples.records;
  const MemoryView room = samples.allocate(runtime, record_bytes(gathered.type, gathered.count));
  const MemoryView scratch =
      samples.allocate(runtime, runtime.kernels().sort_scratch_bytes(gathered.type, gathered.count));
  // Stable, so that samples with equal keys stay in the order of their tags.
  samples.records = sort(runtime, samples.stream, gathered, records_in(room, gathered.type, gathered.count),
                         {0, gathered.type.key_bits()}, scratch);
  return samples;
}

std::vector<Cut> choose_cuts(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources,
                             int parts) {
  const Samples samples = sort_samples(runtime, type, descending, sources);
  const Stream leader = samples.stream;
  const Records& sorted = samples.records;
  const RecordType record = sorted.type;
  const auto num_cuts = static_cast<std::size_t>(parts) - 1;
  std::vector<std::uint64_t> positions, tags(num_cuts), expected_tags(num_cuts, 0);
  std::vector<std::uint64_t> codes(num_cuts, 0), expected_codes;
  for (std::size_t cut = 1; cut <= num_cuts; ++cut) {
    positions.push_back(sorted.count * cut / static_cast<std::size_t>(parts));
    const double fraction = static_cast<double>(cut) / parts;
    expected_codes.push_back(static_cast<std::uint64_t>(std::ldexp(fraction, record.key_bits())));
  }
  // Gather on the device, so that two small copies to the host suffice.
  const Buffer on_device = runtime.allocate(leader.place, 3 * 8 * num_cuts, "samples");
  const MemoryView indices = on_device.slice(0, 8 * num_cuts), cut_tags = on_device.slice(8 * num_cuts, 8 * num_cuts);
  const MemoryView cut_codes = on_device.slice(16 * num_cuts, record.key_bytes() * num_cuts);
  const Buffer pinned = runtime.allocate(Place::host(), indices.bytes, "positions of cuts");
  runtime.host_writes(pinned.view(), "says where the cuts are");
  if (!runtime.estimating()) std::memcpy(pinned.view().data, positions.data(), indices.bytes);
  runtime.copy(leader, indices, pinned.view());
  gather(runtime, leader, 8, 8, sorted.values, indices, cut_tags);
  gather(runtime, leader, static_cast<int>(record.key_bytes()), 8, sorted.keys, indices, cut_codes);
  std::vector<std::uint32_t> narrow(num_cuts), expected_narrow(expected_codes.begin(), expected_codes.end());
  const bool wide = record.key == KeyWidth::k64;
  const void* guess = wide ? static_cast<const void*>(expected_codes.data()) : expected_narrow.data();
  runtime.read_back(
      std::vector<ReadBack>{{leader, cut_tags, tags.data(), expected_tags.data()},
                            {leader, cut_codes, wide ? static_cast<void*>(codes.data()) : narrow.data(), guess}});
  if (!wide) codes.assign(narrow.begin(), narrow.end());
  std::vector<Cut> cuts;
  for (std::size_t cut = 0; cut < num_cuts; ++cut) cuts.push_back({codes[cut], tags[cut]});
  return cuts;
}

BitRange open_bits(const std::vector<Cut>& cuts, std::size_t part, int key_bits) {
  const std::uint64_t lowest = part == 0 ? 0 : cuts[part - 1].code;
  std::uint64_t highest = std::numeric_limits<std::uint64_t>::max() >> (64 - key_bits);
  if (part < cuts.size()) highest = cuts[part].code;
  // A cut before all records of its key leaves that key to the next part.
  if (part < cuts.size() && cuts[part].tag == 0 && highest > lowest) --highest;
  return {0, static_cast<int>(std::bit_width(lowest ^ highest))};
}

}  // namespace linkwise
