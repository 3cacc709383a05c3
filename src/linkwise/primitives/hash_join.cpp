#include "linkwise/primitives/hash_join.hpp"

#include <algorithm>
#include <bit>

#include "linkwise/primitives/hash_views.hpp"

namespace linkwise {
namespace {

RawHashPass raw(const HashPass& pass) {
  return {{pass.from.width(), pass.value},
          raw(pass.from),
          {pointer<const std::uint64_t>(pass.run_begin), pointer<const std::uint64_t>(pass.run_end), pass.runs(),
           pass.buckets},
          pass.rows,
          pass.shift,
          pass.bits};
}

RawHashMatch raw(const HashMatch& match) {
  auto* const tasks = pointer<HashTask>(match.tasks);
  return {match.probe.width(),
          raw(match.probe),
          raw(match.build),
          tasks,
          reinterpret_cast<std::uint32_t*>(tasks + match.most_tasks()),
          match.most_tasks(),
          match.table_rows,
          match.task_rows(),
          match.emission,
          pointer<std::uint8_t>(match.met),
          match.probe_moved,
          match.build_moved,
          pointer<std::uint64_t>(match.checksums),
          match.first_part,
          match.part_bits};
}

void check(const HashPass& pass, const Kernels& kernels, const MemoryView& scratch, const char* operation) {
  check(pass.from, operation);
  require(0 <= pass.bits && pass.bits <= most_pass_bits, operation, "at most 9 bits");
  require(0 <= pass.shift && pass.shift + pass.bits <= 8 * static_cast<int>(pass.from.width()) &&
              pass.shift < 8 * static_cast<int>(pass.from.width()),
          operation, "bits of the hash");
  require(pass.run_begin.bytes == pass.run_end.bytes && pass.runs() % pass.buckets == 0, operation,
          "as many runs of each bucket, each with an end");
  require(scratch.bytes >= hash_pass_scratch_bytes(kernels, pass), operation, "the scratch is too small");
}

void check(const HashMatch& match, const char* operation) {
  check(match.probe, operation);
  check(match.build, operation);
  require(match.probe.width() == match.build.width(), operation, "keys of one width");
  require(match.probe.are_hashes == match.build.are_hashes || match.parts == 1, operation, "parts of hashes");
  for (const HashSide* side : {&match.probe, &match.build})
    require(side->begin.bytes == 0 ? match.parts == 1 : side->begin.bytes == 8 * (std::uint64_t{match.parts} + 1),
            operation, "where each part begins, and the end of the last");
  require(match.met.bytes == 0 || match.met.bytes == match.build.rows(), operation, "a byte for each build row");
  require(match.tasks.bytes == match.task_bytes(), operation, "room for the tasks");
  require(match.checksums.bytes == 0 || match.checksums.bytes == 16, operation, "two checksums");
}

std::vector<MemoryView> what_match_reads(const HashMatch& match) {
  return without_empty({match.probe.keys, match.probe.values, match.probe.begin, match.build.keys, match.build.values,
                        match.build.begin, match.tasks});
}

// Both sides are read once; lookups are in shared memory.
Work work_of(const HashMatch& match, double value_bytes) {
  return {"partition", match.probe.rows() + match.build.rows(), static_cast<double>(match.probe.width()) + value_bytes};
}

}  // namespace

HashSide HashSide::slice(std::uint64_t first, std::uint64_t count) const {
  HashSide part = *this;
  const auto of = [&](const MemoryView& column, int bytes) {
    const auto each = static_cast<std::uint64_t>(bytes);
    return column.bytes == 0 ? column : column.slice(first * each, count * each);
  };
  part.keys = of(keys, static_cast<int>(width()));
  part.values = of(values, value_type.bytes);
  part.first_row += first;
  return part;
}

std::uint64_t hash_pass_scratch_bytes(const Kernels& kernels, const HashPass& pass) {
  return kernels.hash_pass_scratch_bytes(pass.runs(), pass.parts());
}

void count_digits(Runtime& runtime, Stream stream, const HashPass& pass, const MemoryView& scratch,
                  const MemoryView& counts) {
  const Kernels& kernels = runtime.kernels();
  check(pass, kernels, scratch, "count digits");
  require(counts.bytes == 8 * pass.parts(), "count digits", "a counter for each part");
  runtime.enqueue(stream, {"count digits",
                           without_empty({pass.from.keys, pass.run_begin, pass.run_end}),
                           {scratch, counts},
                           {"checksum", pass.rows, static_cast<double>(pass.from.width())},
                           [&kernels, raw_pass = raw(pass), scratch, counts](void* native) {
                             kernels.count_digits(native, raw_pass, scratch.data, pointer<std::uint64_t>(counts));
                           }});
}

void move_to_parts(Runtime& runtime, Stream stream, const HashPass& pass, const MemoryView& begin, const Records& to,
                   const MemoryView& scratch, const MemoryView& checksum) {
  const Kernels& kernels = runtime.kernels();
  check(pass, kernels, scratch, "move to parts");
  require(begin.bytes == 8 * (pass.parts() + 1), "move to parts", "where each part begins, and the end of the last");
  require(to.type == RecordType{pass.from.width(), pass.value} && to.count == pass.rows, "move to parts",
          "room for all rows");
  require(pass.value != ValueWidth::v16, "move to parts", "values of 4 or 8 bytes");
  require(checksum.bytes == 0 || checksum.bytes == 8, "move to parts", "one checksum");
  runtime.enqueue(stream,
                  {"move to parts",
                   without_empty({pass.from.keys, pass.from.values, pass.run_begin, pass.run_end, begin}),
                   without_empty({to.keys, to.values, scratch, checksum}),
                   {"partition", pass.rows, static_cast<double>(to.type.bytes())},
                   [&kernels, raw_pass = raw(pass), begin, records = to.raw(), scratch, checksum](void* native) {
                     kernels.move_to_parts(native, raw_pass, pointer<const std::uint64_t>(begin), records, scratch.data,
                                           pointer<std::uint64_t>(checksum));
                   }});
}

namespace {

// Slots of a hash table: more than twice the samples of the larger side, and a power of two.
std::uint64_t slots_of(const SampledSides& samples) {
  const std::uint64_t bytes = std::max(samples.build.bytes, samples.probe.bytes);
  return std::bit_ceil(2 * bytes / static_cast<std::uint64_t>(key_width(samples.key_type)) + 1);
}

}  // namespace

std::uint64_t SampledSides::scratch_bytes() const { return 2 * 8 * slots_of(*this); }

void compare_samples(Runtime& runtime, Stream stream, const SampledSides& samples, const MemoryView& scratch,
                     const MemoryView& seen) {
  require(scratch.bytes >= samples.scratch_bytes(), "compare samples", "the scratch is too small");
  require(seen.bytes == sizeof(SeenKeys), "compare samples", "room for what was seen");
  const Kernels& kernels = runtime.kernels();
  const auto width = static_cast<std::uint64_t>(key_width(samples.key_type));
  require(std::max(samples.build.bytes, samples.probe.bytes) / width <= RawSamples::most_samples, "compare samples",
          "at most 65535 samples of a side");
  auto* const tables = pointer<std::uint64_t>(scratch);
  const std::uint64_t slots = slots_of(samples);
  const RawSamples raw_samples{key_width(samples.key_type),
                               key_class(samples.key_type) == KeyClass::floating,
                               pointer<const void>(samples.build),
                               pointer<const void>(samples.probe),
                               samples.build.bytes / width,
                               samples.probe.bytes / width,
                               tables,
                               tables + slots,
                               static_cast<std::uint32_t>(slots)};
  runtime.enqueue(stream, {"compare samples",
                           without_empty({samples.build, samples.probe}),
                           {scratch, seen},
                           {"checksum", 2 * slots, 8},
                           [&kernels, raw_samples, seen](void* native) {
                             kernels.compare_samples(native, raw_samples, pointer<SeenKeys>(seen));
                           }});
}

void list_hash_tasks(Runtime& runtime, Stream stream, const HashMatch& match) {
  check(match, "list tasks");
  const Kernels& kernels = runtime.kernels();
  const RawHashMatch raw_match = raw(match);
  const bool sees_all = match.checksums.bytes > 0;
  const bool without_build =
      sees_all || match.emission == Emission::pairs_or_one || match.emission == Emission::one_if_unmatched;
  const RawHashTasks list{raw_match.probe,
                          raw_match.build,
                          match.parts,
                          match.task_rows(),
                          without_build,
                          sees_all,
                          pointer<HashTask>(match.tasks),
                          const_cast<std::uint32_t*>(raw_match.task_count)};
  runtime.enqueue(stream, {"list tasks",
                           without_empty({match.probe.begin, match.build.begin}),
                           {match.tasks},
                           {"checksum", match.parts, 16},
                           [&kernels, list](void* native) { kernels.list_hash_tasks(native, list); }});
}

void count_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, bool adds_values,
                        const MemoryView& totals, const MemoryView& emitted) {
  check(match, "count matches");
  require(totals.bytes == sizeof(MatchTotals), "count matches", "one set of totals");
  require(emitted.bytes == 8 * match.most_tasks(), "count matches", "a number for each task");
  const Kernels& kernels = runtime.kernels();
  std::vector<MemoryView> writes = without_empty({totals, emitted, match.met, match.checksums});
  runtime.enqueue(stream, {"count matches", what_match_reads(match), std::move(writes), work_of(match, 0),
                           [&kernels, raw_match = raw(match), adds_values, totals, emitted](void* native) {
                             kernels.count_hash_matches(
                                 native, raw_match,
                                 {pointer<MatchTotals>(totals), pointer<std::uint64_t>(emitted), adds_values});
                           }});
}

void write_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, const MemoryView& offsets,
                        const HashColumn& of_probe, const HashColumn& of_build) {
  check(match, "write matches");
  check(of_probe, "write matches");
  check(of_build, "write matches");
  require(offsets.bytes == 8 * (match.most_tasks() + 1), "write matches", "an offset for each task, and one more");
  const Kernels& kernels = runtime.kernels();
  std::vector<MemoryView> reads = what_match_reads(match);
  reads.push_back(offsets);
  runtime.enqueue(
      stream, {"write matches", std::move(reads), without_empty({of_probe.to, of_build.to, match.met, match.checksums}),
               work_of(match, of_probe.bytes + of_build.bytes),
               [&kernels, raw_match = raw(match), offsets, of_probe, of_build](void* native) {
                 kernels.write_hash_matches(native, raw_match,
                                            {pointer<const std::uint64_t>(offsets), raw(of_probe), raw(of_build)});
               }});
}

void take_hash_rest(Runtime& runtime, Stream stream, const HashSide& build, const MemoryView& met, bool wants_met,
                    std::uint64_t first, const HashColumn& of_probe, const HashColumn& of_build,
                    const MemoryView& taken) {
  check(build, "take the rest");
  check(of_probe, "take the rest");
  check(of_build, "take the rest");
  require(taken.bytes == 8 && met.bytes == build.rows(), "take the rest", "what was met, and one number");
  const Kernels& kernels = runtime.kernels();
  const RawHashRest rest{raw(build),    pointer<const std::uint8_t>(met), wants_met, first, raw(of_probe),
                         raw(of_build), pointer<std::uint64_t>(taken)};
  runtime.enqueue(stream, {"take the rest",
                           without_empty({met, build.values}),
                           without_empty({taken, of_probe.to, of_build.to}),
                           {"checksum", build.rows(), 1},
                           [&kernels, rest](void* native) { kernels.take_hash_rest(native, rest); }});
}

}  // namespace linkwise
