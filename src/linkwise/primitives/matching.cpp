#include "linkwise/primitives/matching.hpp"

#include <algorithm>

#include "linkwise/primitives/require.hpp"
#include "linkwise/primitives/views.hpp"

namespace linkwise {
namespace {

RawEmitting raw(const Emitting& side) {
  return {pointer<const std::uint32_t>(side.first), pointer<const std::uint64_t>(side.offsets), side.first.bytes / 4};
}

using Expansion = void (Kernels::*)(void*, const RawEmitting&, const RawEmitting&, const RawWindow&) const;

void enqueue_expansion(Runtime& runtime, Stream stream, const char* name, Expansion expansion, const Emitting& left,
                       const Emitting& right, std::uint64_t window, const MemoryView& left_positions,
                       const MemoryView& right_positions) {
  require(left.offsets.bytes == 2 * left.first.bytes + 8, name, "an offset for each left row, and one more");
  require(left_positions.bytes % 4 == 0 && left_positions.bytes == right_positions.bytes, name,
          "as many positions on both sides");
  if (left_positions.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  const std::uint64_t count = left_positions.bytes / 4;
  runtime.enqueue(stream, {name,
                           without_empty({left.first, left.offsets, right.first, right.offsets}),
                           // Both expansions write to a window, each its own rows.
                           {left_positions, right_positions},
                           {"gather", count, 8.0},
                           [=, &kernels](void* native) {
                             (kernels.*expansion)(native, raw(left), raw(right),
                                                  {window, count, pointer<std::uint32_t>(left_positions),
                                                   pointer<std::uint32_t>(right_positions)});
                           }});
}

// Our ranges' share of what join25's kernel sends over the links to the host: it writes four positions of 64 bits, in
// stores of 16 bytes. NVLink carries such stores one by one, as between GPUs; for PCIe they are combined. So a
// selectivity of 1 costs 28 % on the IBM AC922, and 9 % on the DGX H100 (join25 fig. 16).
double goodput_of_each_key(const Machine& machine) {
  const bool over_nvlink = std::ranges::any_of(
      machine.links, [](const Link& link) { return link.kind.starts_with("nvlink") && link.kind.ends_with("-host"); });
  return 0.5 * (over_nvlink ? machine.goodput_of_stores(16) : 1);
}

}  // namespace

Probe probe_of(const Records& probing, const Records& build) {
  Probe probe;
  probe.width = probing.type.key;
  probe.keys = probing.keys;
  probe.build_keys = build.keys;
  return probe;
}

std::uint64_t probe_scratch_bytes(const Kernels& kernels, std::uint64_t probing_rows) {
  return kernels.probe_scratch_bytes(probing_rows);
}

std::uint64_t matching_scratch_bytes(const Kernels& kernels, std::uint64_t rows) {
  return std::max(kernels.probe_scratch_bytes(rows), kernels.running_sums_scratch_bytes(rows));
}

void probe(Runtime& runtime, Stream stream, const Probe& probe, const MemoryView& scratch, const MemoryView& totals) {
  const auto key_bytes = static_cast<std::uint64_t>(probe.width);
  require(probe.keys.bytes % key_bytes == 0 && probe.build_keys.bytes % key_bytes == 0, "probe", "whole keys");
  const std::uint64_t count = probe.keys.bytes / key_bytes, build_count = probe.build_keys.bytes / key_bytes;
  require(probe.values.bytes == 0 || probe.values.bytes == count * static_cast<std::uint64_t>(probe.value_type.bytes),
          "probe", "a value for each key");
  require(probe.build_sums.bytes == 0 || probe.build_sums.bytes == 8 * (build_count + 1), "probe",
          "a sum for each key of the build side, and one more");
  require(probe.first.bytes == probe.emitted.bytes && (probe.first.bytes == 0 || probe.first.bytes == 4 * count),
          "probe", "32 bits for each probing row");
  require(probe.first.bytes == 0 || build_count <= max_build_rows, "probe", "too many rows to find positions in");
  require(totals.bytes == sizeof(MatchTotals), "probe", "one set of totals");
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= kernels.probe_scratch_bytes(count), "probe", "the scratch is too small");
  const RawProbe raw{probe.width,
                     probe.keys.data,
                     count,
                     pointer<const void>(probe.values),
                     probe.value_type,
                     probe.build_keys.data,
                     build_count,
                     pointer<const std::uint64_t>(probe.build_sums),
                     probe.emission,
                     pointer<std::uint32_t>(probe.first),
                     pointer<std::uint32_t>(probe.emitted),
                     probe.keys_rise};
  const auto value_bytes = static_cast<double>(probe.values.bytes > 0 ? probe.value_type.bytes : 0);
  const Work merging{"merge", count + build_count, static_cast<double>(key_bytes) + value_bytes};
  const Work looking{"gather", count, static_cast<double>(key_bytes) + value_bytes};
  runtime.enqueue(stream, {"probe", without_empty({probe.keys, probe.values, probe.build_keys, probe.build_sums}),
                           without_empty({probe.first, probe.emitted, scratch, totals}),
                           probe.keys_rise ? merging : looking, [&kernels, raw, scratch, totals](void* native) {
                             kernels.probe(native, raw, scratch.data, reinterpret_cast<MatchTotals*>(totals.data));
                           }});
}

std::uint64_t range_tiles(std::uint64_t left_rows, std::uint64_t right_rows) {
  return (std::min(left_rows, right_rows) + keys_of_range_tile - 1) / keys_of_range_tile;
}

std::uint64_t find_ranges_scratch_bytes(const Kernels& kernels, std::uint64_t left_rows, std::uint64_t right_rows) {
  return kernels.find_ranges_scratch_bytes(std::min(left_rows, right_rows));
}

void find_ranges(Runtime& runtime, Stream stream, const RangeSearch& search, const MemoryView& scratch,
                 const MemoryView& totals) {
  const auto key_bytes = static_cast<std::uint64_t>(search.width);
  require(search.left_keys.bytes % key_bytes == 0 && search.right_keys.bytes % key_bytes == 0, "find ranges",
          "whole keys");
  const std::uint64_t left = search.left_keys.bytes / key_bytes, right = search.right_keys.bytes / key_bytes;
  require(std::max(left, right) <= max_build_rows, "find ranges", "too many rows to find positions in");
  require(runtime.estimating() || search.ranges.bytes == sizeof(KeyRange) * std::min(left, right), "find ranges",
          "a range for each row of the shorter side");
  require(search.tiles.bytes == sizeof(RangeTile) * range_tiles(left, right), "find ranges", "as many tiles");
  require(totals.bytes == sizeof(RangeTotals), "find ranges", "one set of totals");
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= find_ranges_scratch_bytes(kernels, left, right), "find ranges", "the scratch is too small");
  const bool left_leads = left <= right;
  const MemoryView& leading = left_leads ? search.left_keys : search.right_keys;
  const MemoryView& other = left_leads ? search.right_keys : search.left_keys;
  const RawRangeSearch raw{search.width,
                           search.each_key,
                           leading.data,
                           leading.bytes / key_bytes,
                           other.data,
                           other.bytes / key_bytes,
                           left_leads,
                           pointer<KeyRange>(search.ranges),
                           pointer<RangeTile>(search.tiles)};
  Work work{search.each_key ? "merge with searches" : "merge", left + right, static_cast<double>(key_bytes)};
  if (search.each_key) work.goodput = goodput_of_each_key(runtime.machine());
  runtime.enqueue(stream, {"find ranges", without_empty({search.left_keys, search.right_keys}),
                           without_empty({search.ranges, search.tiles, scratch, totals}), work,
                           [&kernels, raw, scratch, totals](void* native) {
                             kernels.find_ranges(native, raw, scratch.data,
                                                 reinterpret_cast<RangeTotals*>(totals.data));
                           }});
}

void unify_floats(Runtime& runtime, Stream stream, KeyType type, const MemoryView& codes) {
  const auto code_bytes = static_cast<std::uint64_t>(key_width(type));
  require(codes.bytes % code_bytes == 0, "unify floats", "whole codes");
  const std::uint64_t count = codes.bytes / code_bytes;
  if (count == 0 || key_class(type) != KeyClass::floating) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"unify floats",
                           {codes},
                           {codes},
                           {"encode", count, static_cast<double>(code_bytes)},
                           [=, &kernels](void* native) { kernels.unify_floats(native, type, codes.data, count); }});
}

void hash_keys(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& from, const MemoryView& to) {
  const auto key_bytes = static_cast<std::uint64_t>(width);
  require(from.bytes % key_bytes == 0 && to.bytes == from.bytes, "hash", "as many hashes as keys");
  const std::uint64_t count = from.bytes / key_bytes;
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream, {"hash", {from}, {to}, {"encode", count, static_cast<double>(key_bytes)}, [=, &kernels](void* native) {
                 kernels.hash_keys(native, width, from.data, to.data, count);
               }});
}

void hash_probe(Runtime& runtime, Stream stream, const HashProbe& probe, const MemoryView& totals) {
  const auto key_bytes = static_cast<std::uint64_t>(probe.width);
  require(probe.keys.bytes % key_bytes == 0 && probe.build_keys.bytes % key_bytes == 0, "hash probe", "whole keys");
  require(1 <= probe.bits && probe.bits <= 24, "hash probe", "from 1 to 24 bits");
  require(totals.bytes == sizeof(MatchTotals), "hash probe", "one set of totals");
  const RawHashProbe raw{probe.width,
                         probe.bits,
                         probe.keys.data,
                         probe.keys.bytes / key_bytes,
                         pointer<const void>(probe.values),
                         probe.value_type,
                         probe.build_keys.data,
                         probe.build_keys.bytes / key_bytes,
                         pointer<const void>(probe.build_values),
                         probe.build_value_type};
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"hash probe",
                           without_empty({probe.keys, probe.values, probe.build_keys, probe.build_values}),
                           {totals},
                           {"merge", raw.count + raw.build_count, static_cast<double>(key_bytes)},
                           [&kernels, raw, totals](void* native) {
                             kernels.hash_probe(native, raw, reinterpret_cast<MatchTotals*>(totals.data));
                           }});
}

void running_sums(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& values, const MemoryView& sums,
                  const MemoryView& scratch) {
  const std::uint64_t count = values.bytes / static_cast<std::uint64_t>(type.bytes);
  require(sums.bytes == 8 * (count + 1), "running_sums", "a sum for each value, and one more");
  const Kernels& kernels = runtime.kernels();
  require(scratch.bytes >= kernels.running_sums_scratch_bytes(count), "running_sums", "the scratch is too small");
  runtime.enqueue(stream, {"running sums",
                           without_empty({values}),
                           {sums, scratch},
                           {"checksum", count, static_cast<double>(type.bytes) + 8},
                           [=, &kernels](void* native) {
                             kernels.running_sums(native, type, values.data, count, pointer<std::uint64_t>(sums),
                                                  scratch.data, scratch.bytes);
                           }});
}

void expand(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right, std::uint64_t window,
            const MemoryView& left_positions, const MemoryView& right_positions) {
  enqueue_expansion(runtime, stream, "expand", &Kernels::expand, left, right, window, left_positions, right_positions);
}

void expand_unmatched(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right,
                      std::uint64_t window, const MemoryView& left_positions, const MemoryView& right_positions) {
  require(right.offsets.bytes == 2 * right.first.bytes + 8, "expand", "an offset for each right row, and one more");
  enqueue_expansion(runtime, stream, "expand unmatched", &Kernels::expand_unmatched, left, right, window,
                    left_positions, right_positions);
}

}  // namespace linkwise
