#include "linkwise/primitives/primitives.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/record_work.hpp"
#include "linkwise/primitives/require.hpp"

namespace linkwise {
namespace {

void require_here(Stream stream, const MemoryView& view, const char* operation) {
  require(view.bytes == 0 || view.place == stream.place, operation, "an argument is not at the stream's place");
}

std::uint64_t count_of(const MemoryView& view, std::uint64_t element_bytes, const char* operation) {
  require(view.bytes % element_bytes == 0, operation, "bytes are not a whole number of elements");
  return view.bytes / element_bytes;
}

bool is_far(const Runtime& runtime, Place place, const Records& records) {
  const std::array gpus{place.index, records.keys.place.index};
  return records.count > 0 && !runtime.reach_each_other(gpus);
}

int digits(BitRange bits) { return (bits.end - bits.begin + 7) / 8; }

}  // namespace

Records Records::slice(std::uint64_t first, std::uint64_t length) const {
  Records part{type, length, keys.slice(first * type.key_bytes(), length * type.key_bytes()), values};
  if (type.value != ValueWidth::none)
    part.values = values.slice(first * type.value_bytes(), length * type.value_bytes());
  return part;
}

std::uint64_t record_bytes(RecordType type, std::uint64_t count) {
  constexpr std::uint64_t alignment = 128;
  const std::uint64_t keys = (count * type.key_bytes() + alignment - 1) / alignment * alignment;
  return keys + count * type.value_bytes();
}

Records records_in(const MemoryView& memory, RecordType type, std::uint64_t count) {
  const std::uint64_t values_at = record_bytes({type.key, ValueWidth::none}, count);
  Records records{type, count, memory.slice(0, count * type.key_bytes()), {}};
  records.values =
      type.value == ValueWidth::none ? memory.slice(0, 0) : memory.slice(values_at, count * type.value_bytes());
  return records;
}

Records sort(Runtime& runtime, Stream stream, const Records& primary, const Records& secondary, BitRange bits,
             const MemoryView& scratch) {
  require(primary.type == secondary.type && primary.count == secondary.count, "sort",
          "the two records differ in shape");
  require(0 <= bits.begin && bits.begin <= bits.end && bits.end <= primary.type.key_bits(), "sort",
          "bits outside of the key");
  require_here(stream, primary.keys, "sort");
  require_here(stream, secondary.keys, "sort");
  if (primary.count <= 1 || bits.begin == bits.end) return primary;
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= kernels.sort_scratch_bytes(primary.type, primary.count), "sort", "the scratch is too small");
  Operation operation{"sort", views_of({&primary}), views_of({&primary, &secondary}), {}, {}};
  operation.writes.push_back(scratch);
  operation.work = {rate_of_sort(primary.type), primary.count, static_cast<double>(primary.type.bytes()),
                    static_cast<double>(digits(bits))};
  operation.run = [&kernels, primary, secondary, bits, scratch](void* native) {
    kernels.sort(native, primary.type, primary.raw(), secondary.raw(), primary.count, bits, scratch.data,
                 scratch.bytes);
  };
  runtime.enqueue(stream, std::move(operation));
  return kernels.sort_lands_in_secondary(primary.type, primary.count, bits) ? secondary : primary;
}

void look_at_keys(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input, SortBuffers buffers,
                  ExpectedKeys expected, const MemoryView& scratch, const MemoryView& spread) {
  const Kernels& kernels = runtime.kernels();
  require_here(stream, input.keys, "look_at_keys");
  require(spread.bytes == sizeof(KeySpread), "look_at_keys", "room for a spread");
  const std::uint64_t wanted = kernels.msd_sort_scratch_bytes(input.type, input.count);
  require(wanted > 0, "look_at_keys", "records that the sort takes");
  require(scratch.bytes >= wanted, "look_at_keys", "the scratch is too small");
  Operation operation{"look at keys", views_of({&input}), {scratch, spread}, {}, {}};
  operation.run = [&kernels, coding, input, buffers, expected, scratch, spread](void* native) {
    kernels.look_at_keys(native, coding, input.raw(), input.type, input.count, buffers, expected, scratch.data,
                         reinterpret_cast<KeySpread*>(spread.data));
  };
  runtime.enqueue(stream, std::move(operation));
}

void msd_sort(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input, const Records& result,
              const Records& room, ExpectedKeys expected, const MemoryView& scratch, const MemoryView& checksum) {
  require(
      input.type == result.type && input.count == result.count && input.type == room.type && input.count == room.count,
      "msd_sort", "the records differ in shape");
  require_here(stream, input.keys, "msd_sort");
  require_here(stream, result.keys, "msd_sort");
  require_here(stream, room.keys, "msd_sort");
  const Kernels& kernels = runtime.kernels();
  require(kernels.msd_sort_scratch_bytes(input.type, input.count) > 0, "msd_sort", "records that it takes");
  Operation operation{"sort", views_of({&input}), views_of({&result, &room}), {}, {}};
  operation.writes.push_back(scratch);
  if (checksum.bytes > 0) operation.writes.push_back(checksum);
  operation.work = work_of_msd_sort(input.type, input.count);
  auto* const sum = checksum.bytes > 0 ? reinterpret_cast<std::uint64_t*>(checksum.data) : nullptr;
  operation.run = [&kernels, coding, input, result, room, expected, scratch, sum](void* native) {
    kernels.msd_sort(native, coding, input.type, input.raw(), result.raw(), room.raw(), input.count, expected,
                     scratch.data, sum);
  };
  runtime.enqueue(stream, std::move(operation));
}

void merge(Runtime& runtime, Stream stream, const Records& left, const Records& right, const Records& to,
           const MemoryView& scratch) {
  require(left.type == right.type && left.type == to.type, "merge", "the records differ in type");
  require(left.count + right.count == to.count, "merge", "the output does not have as many records as the inputs");
  if (to.count == 0) return;
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= kernels.merge_scratch_bytes(to.type, left.count, right.count), "merge",
          "the scratch is too small");
  Operation operation{"merge", views_of({&left, &right}), views_of({&to}), {}, {}};
  operation.writes.push_back(scratch);
  operation.work = {"merge", to.count, static_cast<double>(to.type.bytes())};
  operation.run = [&kernels, left, right, to, scratch](void* native) {
    kernels.merge(native, to.type, left.raw(), left.count, right.raw(), right.count, to.raw(), scratch.data,
                  scratch.bytes);
  };
  runtime.enqueue(stream, std::move(operation));
}

void copy(Runtime& runtime, Stream stream, const Records& to, const Records& from) {
  require(to.type == from.type && to.count == from.count, "copy", "the records differ in shape");
  if (to.count == 0) return;
  runtime.copy(stream, to.keys, from.keys);
  if (to.type.value != ValueWidth::none) runtime.copy(stream, to.values, from.values);
}

void encode(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& from,
            const MemoryView& to) {
  const std::uint64_t count = count_of(from, static_cast<std::uint64_t>(native_bytes(type)), "encode");
  require(to.bytes == count * static_cast<std::uint64_t>(key_width(type)), "encode", "the output has another size");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"encode",
                           {from},
                           {to},
                           {"encode", count, static_cast<double>(native_bytes(type))},
                           [&kernels, type, descending, from, to, count](void* native) {
                             kernels.encode(native, type, descending, from.data, to.data, count);
                           }});
}

void decode(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& from,
            const MemoryView& to) {
  const std::uint64_t count = count_of(to, static_cast<std::uint64_t>(native_bytes(type)), "decode");
  require(from.bytes == count * static_cast<std::uint64_t>(key_width(type)), "decode", "the input has another size");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"decode",
                           {from},
                           {to},
                           {"encode", count, static_cast<double>(native_bytes(type))},
                           [&kernels, type, descending, from, to, count](void* native) {
                             kernels.decode(native, type, descending, from.data, to.data, count);
                           }});
}

void iota(Runtime& runtime, Stream stream, ValueWidth width, const MemoryView& to, std::uint64_t first) {
  require(width != ValueWidth::none, "iota", "values have no width");
  const std::uint64_t count = count_of(to, static_cast<std::uint64_t>(width), "iota");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"iota",
                           {},
                           {to},
                           {"encode", count, static_cast<double>(width)},
                           [&kernels, width, to, first, count](void* native) {
                             kernels.iota(native, width, to.data, first, count);
                           }});
}

void mark_changes(Runtime& runtime, Stream stream, int element_bytes, const MemoryView& elements,
                  const MemoryView& before, const MemoryView& marks) {
  const auto width = static_cast<std::uint64_t>(element_bytes);
  const std::uint64_t count = count_of(elements, width, "mark changes");
  require(marks.bytes == 4 * count, "mark changes", "a mark of 32 bits for each element");
  require(before.bytes == 0 || before.bytes == width, "mark changes", "one element is before the first");
  if (count == 0) return;
  std::vector<MemoryView> reads{elements, marks};
  if (before.bytes > 0) reads.push_back(before);
  const void* previous = before.bytes > 0 ? before.data : nullptr;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"mark changes",
                           std::move(reads),
                           {marks},
                           {"encode", count, static_cast<double>(element_bytes)},
                           [=, &kernels](void* native) {
                             kernels.mark_changes(native, element_bytes, elements.data, previous,
                                                  reinterpret_cast<std::uint32_t*>(marks.data), count);
                           }});
}

void list_marked(Runtime& runtime, Stream stream, const MemoryView& marks, const MemoryView& sums, std::uint64_t first,
                 const MemoryView& to) {
  const std::uint64_t count = count_of(marks, 4, "list marked");
  require(sums.bytes == 8 * (count + 1), "list marked", "a sum for each mark, and one more");
  if (count == 0 || to.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"list marked", {marks, sums}, {to}, {"encode", count, 8.0}, [=, &kernels](void* native) {
                             kernels.list_marked(native, reinterpret_cast<const std::uint32_t*>(marks.data),
                                                 reinterpret_cast<const std::uint64_t*>(sums.data), first,
                                                 reinterpret_cast<std::uint64_t*>(to.data), count);
                           }});
}

void set_bytes(Runtime& runtime, Stream stream, const MemoryView& to, std::uint8_t byte) {
  if (to.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"set bytes", {}, {to}, {"encode", to.bytes, 1.0}, [&kernels, to, byte](void* native) {
                             kernels.set_bytes(native, to.data, byte, to.bytes);
                           }});
}

void sample(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& keys, std::uint64_t seed,
            std::uint64_t tag_base, const MemoryView& codes, const MemoryView& tags) {
  const std::uint64_t count = count_of(keys, static_cast<std::uint64_t>(native_bytes(type)), "sample");
  const std::uint64_t samples = count_of(tags, 8, "sample");
  require(samples <= count && codes.bytes == samples * static_cast<std::uint64_t>(key_width(type)), "sample",
          "more samples than keys, or not a code for each");
  const bool on_host = !stream.place.is_gpu();
  require(on_host || keys.place == stream.place || !keys.pageable, "sample",
          "a device cannot read pageable host memory");
  if (samples == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"sample",
                           {keys},
                           {codes, tags},
                           {keys.place.is_gpu() ? "gather" : "sample host", samples, 8.0},
                           [=, &kernels](void* native) {
                             auto* tag_data = reinterpret_cast<std::uint64_t*>(tags.data);
                             if (on_host)
                               sample_on_host(type, descending, keys.data, count, samples, seed, tag_base, codes.data,
                                              tag_data);
                             else
                               kernels.sample(native, type, descending, keys.data, count, samples, seed, tag_base,
                                              codes.data, tag_data);
                           }});
}

void histogram(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& keys, BitRange bits,
               const Prefixes& prefixes, const MemoryView& counts) {
  const std::uint64_t count = count_of(keys, static_cast<std::uint64_t>(width), "histogram");
  require(0 <= bits.begin && bits.begin < bits.end && bits.end - bits.begin <= 16 &&
              bits.end <= 8 * static_cast<int>(width),
          "histogram", "from 1 to 16 bits of the key");
  require(0 <= prefixes.count && prefixes.count < max_destinations &&
              (prefixes.count == 0 || bits.end < 8 * static_cast<int>(width)),
          "histogram", "prefixes of bits that there are");
  require(std::is_sorted(prefixes.value, prefixes.value + prefixes.count), "histogram", "prefixes that rise");
  const auto counters = static_cast<std::uint64_t>(std::max(prefixes.count, 1)) << (bits.end - bits.begin);
  require(counters <= 1 << 16 && counts.bytes == 8 * counters, "histogram", "the output has another size");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream,
      {"histogram", {keys}, {counts}, {"histogram", count, static_cast<double>(width)}, [=, &kernels](void* native) {
         kernels.histogram(native, width, keys.data, count, bits, prefixes,
                           reinterpret_cast<std::uint64_t*>(counts.data));
       }});
}

void partition_count(Runtime& runtime, Stream stream, const Records& from, const Splitters& splitters,
                     const MemoryView& scratch, const MemoryView& totals) {
  require(splitters.count >= 0 && splitters.count < max_destinations, "partition", "too many destinations");
  require(totals.bytes == 8ULL * (splitters.count + 1), "partition", "one total a destination");
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= kernels.partition_scratch_bytes(from.type, from.count, splitters.count + 1), "partition",
          "the scratch is too small");
  runtime.enqueue(stream, {"count",
                           {from.keys},
                           {scratch, totals},
                           {"histogram", from.count, static_cast<double>(from.type.key_bytes())},
                           [=, &kernels](void* native) {
                             kernels.partition_count(native, from.type, from.keys.data, from.count, splitters,
                                                     scratch.data, scratch.bytes,
                                                     reinterpret_cast<std::uint64_t*>(totals.data));
                           }});
}

void partition(Runtime& runtime, Stream stream, const Records& from, const Splitters& splitters,
               const MemoryView& scratch, std::span<const Records> destinations) {
  require(static_cast<int>(destinations.size()) == splitters.count + 1, "partition",
          "one destination more than splitters");
  if (from.count == 0) return;
  // What goes to GPUs that the kernel cannot reach is stored on its own one, and copied.
  std::uint64_t far = 0;
  for (const Records& to : destinations) far += is_far(runtime, stream.place, to) ? to.count : 0;
  if (far > 0) {
    Buffer room = runtime.allocate(stream.place, record_bytes(from.type, far), "partitioned");
    const Records here = records_in(room.view(), from.type, far);
    std::vector<Records> near(destinations.begin(), destinations.end());
    std::uint64_t first = 0;
    for (Records& to : near) {
      if (!is_far(runtime, stream.place, to)) continue;
      to = here.slice(first, to.count);
      first += to.count;
    }
    partition(runtime, stream, from, splitters, scratch, near);
    for (std::size_t d = 0; d < near.size(); ++d)
      if (is_far(runtime, stream.place, destinations[d])) copy(runtime, stream, destinations[d], near[d]);
    runtime.retire(std::move(room));
    return;
  }
  RawDestinations raw;
  Operation operation{
      "partition", views_of({&from}), {}, {"partition", from.count, static_cast<double>(from.type.bytes())}, {}};
  operation.reads.push_back(scratch);
  for (std::size_t d = 0; d < destinations.size(); ++d) {
    require(destinations[d].type == from.type, "partition", "a destination has another type");
    raw.records[d] = destinations[d].raw();
    const auto views = views_of({&destinations[d]});
    operation.writes.insert(operation.writes.end(), views.begin(), views.end());
  }
  const Kernels& kernels = runtime.kernels();
  operation.run = [=, &kernels](void* native) {
    kernels.partition(native, from.type, from.raw(), from.count, splitters, scratch.data, raw);
  };
  runtime.enqueue(stream, std::move(operation));
}

void checksum(Runtime& runtime, Stream stream, const Records& records, const MemoryView& sum) {
  require(sum.bytes == 8, "checksum", "the sum has 8 bytes");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"checksum",
                           views_of({&records}),
                           {sum},
                           {"checksum", records.count, static_cast<double>(records.type.bytes())},
                           [=, &kernels](void* native) {
                             kernels.checksum(native, records.type, records.raw(), records.count,
                                              reinterpret_cast<std::uint64_t*>(sum.data));
                           }});
}

void check_part(Runtime& runtime, Stream stream, KeyCoding coding, const Records& sorted, const MemoryView& numbers) {
  require(numbers.bytes == sizeof(PartNumbers), "check_part", "room for PartNumbers");
  require(sorted.count > 0, "check_part", "records");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"check part",
                           views_of({&sorted}),
                           {numbers},
                           {"checksum", sorted.count, static_cast<double>(sorted.type.bytes())},
                           [=, &kernels](void* native) {
                             kernels.check_part(native, sorted.type, coding, sorted.raw(), sorted.count,
                                                reinterpret_cast<PartNumbers*>(numbers.data));
                           }});
}

void check_order(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& keys,
                 const MemoryView& violations) {
  require(violations.bytes == 8, "check_order", "the count has 8 bytes");
  const std::uint64_t count = count_of(keys, static_cast<std::uint64_t>(width), "check_order");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"check order",
                           {keys},
                           {violations},
                           {"checksum", count, static_cast<double>(width)},
                           [=, &kernels](void* native) {
                             kernels.check_order(native, width, keys.data, count,
                                                 reinterpret_cast<std::uint64_t*>(violations.data));
                           }});
}

void select_pivot(Runtime& runtime, Stream stream, std::span<const Records> left, std::span<const Records> right,
                  const MemoryView& pivot) {
  require(pivot.bytes == 8, "select_pivot", "the pivot has 8 bytes");
  require(!left.empty() && !right.empty() && left.size() <= max_segments && right.size() <= max_segments,
          "select_pivot", "from 1 to 32 segments on each side");
  const KeyWidth width = left.front().type.key;
  Operation operation{"select pivot", {}, {pivot}, {"pivot"}, {}};
  const auto raw_segments = [&](std::span<const Records> segments) {
    RawSegments raw;
    for (const Records& segment : segments) {
      require(segment.type.key == width, "select_pivot", "segments differ in key width");
      raw.keys[raw.count] = segment.keys.data;
      raw.length[raw.count++] = segment.count;
      if (segment.count > 0) operation.reads.push_back(segment.keys);
    }
    return raw;
  };
  const RawSegments raw_left = raw_segments(left), raw_right = raw_segments(right);
  const Kernels& kernels = runtime.kernels();
  operation.run = [=, &kernels](void* native) {
    kernels.select_pivot(native, width, raw_left, raw_right, reinterpret_cast<std::uint64_t*>(pivot.data));
  };
  runtime.enqueue(stream, std::move(operation));
}

}  // namespace linkwise
