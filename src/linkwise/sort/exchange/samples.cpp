#include "linkwise/sort/exchange/samples.hpp"

#include <algorithm>

namespace linkwise {
namespace {

// Samples one source, and copies the samples into `to` on the leader.
Buffer take_samples(Runtime& runtime, KeyType type, bool descending, const SampleSource& source, std::uint64_t seed,
                    const Records& to) {
  const bool on_host = source.keys.pageable && !source.keys.place.is_gpu();
  const Stream sampler = on_host ? runtime.stream(Place::host(), "sample") : source.stream;
  Buffer local = runtime.allocate(sampler.place, record_bytes(to.type, to.count), "samples");
  const Records taken = records_in(local.view(), to.type, to.count);
  sample(runtime, sampler, type, descending, source.keys, seed, source.tag_base, taken.keys, taken.values);
  if (on_host) runtime.wait(source.stream, runtime.record(sampler));
  copy(runtime, source.stream, to, taken);
  return local;
}

}  // namespace

std::uint64_t samples_of(std::uint64_t count, std::uint64_t total, std::uint64_t wanted) {
  if (total <= wanted || count == 0) return count;
  const double share = static_cast<double>(count) / static_cast<double>(total) * static_cast<double>(wanted);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(share), 1, count);
}

MemoryView Samples::allocate(Runtime& runtime, std::uint64_t bytes) {
  return memory.emplace_back(runtime.allocate(stream.place, bytes, "samples")).view();
}

Samples gather_samples(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources) {
  std::uint64_t count = 0;
  for (const SampleSource& source : sources) count += source.samples;
  const RecordType record = Samples::type(key_width(type));
  Samples samples{sources.front().stream, {}, {}};
  samples.records = records_in(samples.allocate(runtime, record_bytes(record, count)), record, count);
  std::uint64_t first = 0, seed = 0;
  for (const SampleSource& source : sources) {
    const Records slot = samples.records.slice(first, source.samples);
    samples.memory.push_back(take_samples(runtime, type, descending, source, seed++, slot));
    runtime.wait(samples.stream, runtime.record(source.stream));
    first += source.samples;
  }
  return samples;
}

}  // namespace linkwise
