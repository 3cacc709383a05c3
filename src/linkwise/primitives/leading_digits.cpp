#include "linkwise/primitives/leading_digits.hpp"

#include <utility>

#include "linkwise/primitives/record_work.hpp"
#include "linkwise/primitives/require.hpp"
#include "linkwise/primitives/views.hpp"

namespace linkwise {
namespace {

// A level reads its records twice and writes them once, and so does the next; then they are read and written once more.
constexpr double share_after_first_level = 5.0 / 8;

void check(const Kernels& kernels, const LeadingDigits& level, const char* operation) {
  require(level.digits.bytes == kernels.leading_digits_bytes(), operation, "room for the digits");
  require(level.digits.place == level.stream.place && level.scratch.place == level.stream.place, operation,
          "memory of the stream's GPU");
}

void check_scratch(const Kernels& kernels, const LeadingDigits& level, std::uint64_t count, const char* operation) {
  require(level.scratch.bytes >= kernels.leading_digits_scratch_bytes(level.source.type, count), operation,
          "the scratch is too small");
}

RawLeadingDigits raw(const LeadingDigits& level) {
  return {level.coding,       level.source.type, level.source.raw(),
          level.source.count, level.digits.data, level.scratch.data};
}

}  // namespace

bool may_have_leading_digits(const Kernels& kernels, RecordType type, std::uint64_t most_part) {
  return kernels.leading_digits_scratch_bytes(type, most_part) > 0;
}

void look_at_all_keys(Runtime& runtime, const LeadingDigits& level, std::span<const MemoryView> samples,
                      std::uint64_t total, const MemoryView& spread) {
  const Kernels& kernels = runtime.kernels();
  check(kernels, level, "look_at_all_keys");
  check_scratch(kernels, level, level.source.count, "look_at_all_keys");
  require(spread.bytes == sizeof(KeySpread), "look_at_all_keys", "room for a spread");
  require(samples.size() <= max_segments, "look_at_all_keys", "too many sources");
  Operation operation{"look at keys", {}, {level.digits, level.scratch, spread}, {}, {}};
  RawSegments codes;
  for (const MemoryView& sample : samples) {
    if (sample.bytes == 0) continue;
    codes.keys[codes.count] = sample.data;
    codes.length[codes.count++] = sample.bytes / level.source.type.key_bytes();
    operation.reads.push_back(sample);
  }
  require(codes.count > 0, "look_at_all_keys", "samples");
  operation.run = [&kernels, level, codes, total, spread](void* native) {
    kernels.look_at_all_keys(native, raw(level), codes, total, pointer<KeySpread>(spread));
  };
  runtime.enqueue(level.stream, std::move(operation));
}

void count_leading_digits(Runtime& runtime, const LeadingDigits& level, const MemoryView& counts) {
  const Kernels& kernels = runtime.kernels();
  check(kernels, level, "count_leading_digits");
  require(counts.bytes == sizeof(LeadingDigitCounts), "count_leading_digits", "room for the counts");
  const Records& source = level.source;
  Operation operation{"count leading digits",
                      without_empty({source.keys, level.digits, level.scratch}),
                      {level.scratch, counts},
                      {"histogram", source.count, static_cast<double>(source.type.key_bytes())},
                      {}};
  operation.run = [&kernels, level, counts](void* native) {
    kernels.count_leading_digits(native, raw(level), pointer<LeadingDigitCounts>(counts));
  };
  runtime.enqueue(level.stream, std::move(operation));
}

void store_leading_digits(Runtime& runtime, const LeadingDigits& level, const LeadingDigitCounts& counts,
                          const DigitPlaces& places, std::span<const Records> parts, const MemoryView& checksum) {
  const Kernels& kernels = runtime.kernels();
  check(kernels, level, "store_leading_digits");
  require(parts.size() <= max_destinations, "store_leading_digits", "too many parts");
  require(places.digits == counts.digits, "store_leading_digits", "a place for each digit");
  const Records& source = level.source;
  Operation operation{"store leading digits",
                      views_of({&source}),
                      {level.scratch},
                      {"partition", source.count, static_cast<double>(source.type.bytes())},
                      {}};
  for (const MemoryView& view : {level.digits, level.scratch}) operation.reads.push_back(view);
  for (std::uint32_t d = 0; d < places.digits; ++d) {
    if (counts.count[d] == 0) continue;
    require(places.part[d] < parts.size(), "store_leading_digits", "a part for each digit");
    const Records written = parts[places.part[d]].slice(places.begin[d], counts.count[d]);
    for (const MemoryView& view : views_of({&written})) operation.writes.push_back(view);
  }
  if (checksum.bytes > 0) operation.writes.push_back(checksum);
  RawDestinations to;
  for (std::size_t part = 0; part < parts.size(); ++part) to.records[part] = parts[part].raw();
  operation.run = [&kernels, level, places, to, checksum](void* native) {
    kernels.store_leading_digits(native, raw(level), places, to, pointer<std::uint64_t>(checksum));
  };
  runtime.enqueue(level.stream, std::move(operation));
}

void sort_received_digits(Runtime& runtime, const LeadingDigits& level, const ReceivedDigits& received,
                          const Records& part, const Records& room) {
  const Kernels& kernels = runtime.kernels();
  check(kernels, level, "sort_received_digits");
  check_scratch(kernels, level, part.count, "sort_received_digits");
  require(part.type == room.type && part.count == room.count, "sort_received_digits", "the records differ in shape");
  require(received.first < received.end && received.end <= received.digits, "sort_received_digits", "digits in order");
  if (part.count == 0) return;
  Operation operation{"sort received digits", views_of({&part}), views_of({&part, &room}), {}, {}};
  operation.reads.push_back(level.digits);
  operation.writes.push_back(level.scratch);
  operation.work = work_of_msd_sort(part.type, part.count, share_after_first_level);
  operation.run = [&kernels, level, received, part, room](void* native) {
    kernels.sort_received_digits(native, raw(level), received, part.raw(), room.raw(), part.count);
  };
  runtime.enqueue(level.stream, std::move(operation));
}

}  // namespace linkwise
