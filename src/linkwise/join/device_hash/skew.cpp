#include "linkwise/join/device_hash/skew.hpp"

#include <algorithm>

#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/sort/exchange/splitters.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t few_samples = 1024, many_samples = 16000, many_rows = 10'000'000;
constexpr std::uint64_t known_rate = 4;   // samples of a key that suffice to estimate its number of rows
constexpr std::uint64_t known_pairs = 3;  // matching samples that suffice to estimate all pairs; fewer may be chance

}  // namespace

SkewSamples::SkewSamples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build,
                         const DeviceSide& probe)
    : runtime_(runtime), build_rows_(build.rows), probe_rows_(probe.rows) {
  runtime.set_phase("sample");
  std::vector<Stream> samplers;
  for (const Stream stream : streams) {
    samplers.push_back(runtime.stream(stream.place, "samples"));
    runtime.wait(samplers.back(), runtime.record(stream));
  }
  comparer_ = samplers.front();
  const SampledSides samples{build.key_type, brought_together(samplers, build), brought_together(samplers, probe)};
  for (const Stream sampler : samplers) runtime.wait(comparer_, runtime.record(sampler));
  build_samples_ = samples.build.bytes / build.type.key_bytes();
  probe_samples_ = samples.probe.bytes / probe.type.key_bytes();
  seen_ = allocate(comparer_.place, sizeof(SeenKeys));
  compare_samples(runtime, comparer_, samples, allocate(comparer_.place, samples.scratch_bytes()), seen_);
}

MemoryView SkewSamples::allocate(Place place, std::uint64_t bytes) {
  return memory_.emplace_back(runtime_.allocate(place, bytes, "samples")).view();
}

// Gathers the key codes of a side's samples on the first GPU.
MemoryView SkewSamples::brought_together(std::span<const Stream> samplers, const DeviceSide& side) {
  const std::uint64_t wanted = side.rows > many_rows ? many_samples : few_samples, width = side.type.key_bytes();
  std::vector<std::uint64_t> samples;
  std::uint64_t all = 0;
  for (const Records& records : side.records) all += samples.emplace_back(samples_of(records.count, side.rows, wanted));
  const MemoryView together = all > 0 ? allocate(comparer_.place, width * all) : MemoryView{};
  std::uint64_t at = 0;
  for (std::size_t g = 0; g < samplers.size(); ++g) {
    if (samples[g] == 0) continue;
    const RecordType type{side.type.key, ValueWidth::v8};  // a code, and a tag that is not used
    const Records taken = records_in(allocate(samplers[g].place, record_bytes(type, samples[g])), type, samples[g]);
    sample(runtime_, samplers[g], side.key_type, /*descending=*/false, side.records[g].keys, /*seed=*/g, 0, taken.keys,
           taken.values);
    runtime_.copy(samplers[g], together.slice(width * at, width * samples[g]), taken.keys);
    at += samples[g];
  }
  return together;
}

JoinSkew SkewSamples::skew() {
  SeenKeys seen;
  runtime_.read_back({comparer_, seen_, &seen});
  const auto rows_of = [](std::uint64_t times, std::uint64_t rows, std::uint64_t samples) {
    return static_cast<double>(times) * static_cast<double>(rows) /
           static_cast<double>(std::max<std::uint64_t>(samples, 1));
  };
  JoinSkew skew;
  if (seen.build_most >= known_rate) skew.build_rows = rows_of(seen.build_most, build_rows_, build_samples_);
  if (seen.probe_most >= known_rate) skew.probe_share = rows_of(seen.probe_most, 1, probe_samples_);
  if (seen.pairs >= known_pairs)
    skew.pairs = rows_of(seen.pairs, build_rows_, build_samples_) * rows_of(1, probe_rows_, probe_samples_);
  skew.hot_share = rows_of(seen.probe_repeated, 1, probe_samples_);
  return skew;
}

}  // namespace linkwise
