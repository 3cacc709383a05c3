#include "linkwise/join/device_hash/hash_parts.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "linkwise/primitives/matching.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t spare_rows = 4096;
constexpr double fill = 0.8;  // of a table, by a part of the usual length

// As many rows as let two tables share a multiprocessor (of 227 KiB), to count or to write 4-byte row numbers.
std::uint32_t usual_table_rows(KeyWidth width) { return width == KeyWidth::k32 ? 8192 : 4608; }

IntegerType raw_numbers(ValueWidth width) { return {width == ValueWidth::v8 ? 8 : 4, false}; }

}  // namespace

HashLayout layout_hash_join(KeyWidth width, std::uint64_t build_rows, std::uint64_t probe_rows, std::size_t gpus,
                            bool build_emits, std::uint32_t table_rows) {
  HashLayout layout;
  layout.table_rows = table_rows > 0 ? table_rows : usual_table_rows(width);
  // Sending the build side to all costs what sending the probing side to its parts would.
  layout.replicates = gpus > 1 && !build_emits && (build_rows <= layout.table_rows || 2 * gpus * build_rows <= probe_rows);
  int bits = 0;
  if (build_rows > layout.table_rows) {
    const double parts = static_cast<double>(build_rows) / (fill * layout.table_rows);
    bits = std::clamp(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(parts))), 1, 2 * most_pass_bits);
  }
  if (gpus == 1 || layout.replicates) {
    layout.first_bits = bits <= most_pass_bits ? bits : (bits + 1) / 2;
    layout.second_bits = bits - layout.first_bits;
    return layout;
  }
  const int to_spread = static_cast<int>(std::bit_width(gpus - 1)) + 3;  // buckets for each GPU, so that shares are alike
  layout.first_bits = std::max((bits + 1) / 2, to_spread);
  layout.second_bits = std::max(bits - layout.first_bits, 0);
  return layout;
}

HashParts::HashParts(Runtime& runtime, std::span<const Stream> streams, Router& router, const HashLayout& layout,
                     bool verify)
    : runtime_(runtime), streams_(streams), router_(router), layout_(layout), verify_(verify) {}

bool HashParts::bring(const Input& build, const Input& probe) {
  build_.input = build;
  probe_.input = probe;
  start(build_);
  start(probe_);
  if (layout_.replicates) replicate(build_);
  if (layout_.first_bits > 0) {
    runtime_.set_phase("partition");
    for (std::size_t g = 0; verify_ && g < streams_.size(); ++g) came_in_.push_back(allocate(g, sizeof(Checksums)));
    first_pass(build_, offsetof(Checksums, build));
    first_pass(probe_, offsetof(Checksums, probe));
    if (exchanges()) {
      Side* const sides[] = {&build_, &probe_};
      if (!exchange(sides)) return false;
    }
    runtime_.set_phase("partition");
    if (exchanges() || layout_.second_bits > 0)
      for (Side* side : {&build_, &probe_})
        for (std::size_t g = 0; g < streams_.size(); ++g) second_pass(*side, g);
  }
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    const Piece& piece = build_.pieces[g];
    on_gpus_.push_back({piece.rows, probe_.pieces[g].rows, piece.buckets});
  }
  return true;
}

MemoryView HashParts::allocate(std::size_t gpu, std::uint64_t bytes) {
  return memory_.emplace_back(runtime_.allocate(streams_[gpu].place, bytes, "hash join")).view();
}

void HashParts::start(Side& side) {
  const DeviceSide& from = *side.input.side;
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    const Records& records = from.records[g];
    const bool carries = side.input.value != ValueWidth::none;
    Piece piece;
    piece.rows = {from.key_type, records.keys, carries ? records.values : MemoryView{}, side.input.value_type,
                  from.first_rows[g], false, {}};
    piece.count = records.count;
    side.pieces.push_back(piece);
  }
}

// A GPU's own part first, from where the others can read it: the caller's memory they might not see.
void HashParts::replicate(Side& build) {
  runtime_.set_phase("exchange");
  const DeviceSide& from = *build.input.side;
  const bool carries_values =
      build.input.value != ValueWidth::none && from.columns->value_width != ValueWidth::none;
  std::vector<HashSide> copies;
  std::vector<Event> there;
  const auto part_of = [&](const MemoryView& column, std::size_t part) {
    const std::uint64_t width = from.rows == 0 ? 0 : column.bytes / from.rows;
    return column.slice(from.first_rows[part] * width, from.records[part].count * width);
  };
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    const HashSide& own = build.pieces[g].rows;
    HashSide copy = own;
    copy.first_row = 0;
    copy.keys = allocate(g, from.rows * static_cast<std::uint64_t>(own.width()));
    router_.copy(streams_[g], part_of(copy.keys, g), own.keys);
    if (carries_values) {
      copy.values = allocate(g, from.rows * from.type.value_bytes());
      router_.copy(streams_[g], part_of(copy.values, g), own.values);
    }
    copies.push_back(copy);
    there.push_back(runtime_.record(streams_[g]));
  }
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    for (std::size_t step = 1; step < streams_.size(); ++step) {  // each from another, at any time
      const std::size_t part = (g + step) % streams_.size();
      runtime_.wait(streams_[g], there[part]);
      router_.copy(streams_[g], part_of(copies[g].keys, part), part_of(copies[part].keys, part));
      if (carries_values)
        router_.copy(streams_[g], part_of(copies[g].values, part), part_of(copies[part].values, part));
    }
    build.pieces[g].rows = copies[g];
    build.pieces[g].count = from.rows;
  }
}

Records HashParts::divide(Side& side, std::size_t gpu, int shift, int bits, std::uint64_t room,
                          const MemoryView& checksum) {
  Piece& piece = side.pieces[gpu];
  HashPass pass{piece.rows, side.input.value, piece.run_begin, piece.run_end, piece.buckets, piece.count, shift, bits};
  const Kernels& kernels = runtime_.kernels();
  const RecordType type{piece.rows.width(), side.input.value};
  const std::uint64_t parts = pass.parts();
  const MemoryView scratch =
      allocate(gpu, std::max(hash_pass_scratch_bytes(kernels, pass), kernels.running_sums_scratch_bytes(parts)));
  const MemoryView counts = allocate(gpu, 8 * parts), begin = allocate(gpu, 8 * (parts + 1));
  const Records to = records_in(allocate(gpu, record_bytes(type, room)), type, room);
  count_digits(runtime_, streams_[gpu], pass, scratch, counts);
  running_sums(runtime_, streams_[gpu], {8, false}, counts, begin, scratch);
  const Records moved = to.slice(0, piece.count);
  move_to_parts(runtime_, streams_[gpu], pass, begin, moved, scratch, checksum);
  piece.rows = {code_type(type.key), moved.keys, moved.values, raw_numbers(side.input.value), 0, true, begin};
  if (side.input.value != ValueWidth::none) piece.rows.value_type = side.input.value_type;
  piece.run_begin = begin.slice(0, 8 * parts);
  piece.run_end = begin.slice(8, 8 * parts);
  piece.buckets = static_cast<std::uint32_t>(parts);
  return to;
}

void HashParts::first_pass(Side& side, std::uint64_t place_of_checksum) {
  const int key_bits = side.input.side->type.key_bits();
  const std::uint64_t gpus = streams_.size(), share = side.input.side->rows / gpus;
  for (std::size_t g = 0; g < gpus; ++g) {
    // What other GPUs send comes behind what this one has moved, most of which it sends itself.
    const std::uint64_t sent = exchanges() ? share + share / 8 + spare_rows : 0;
    const MemoryView checksum = verify_ ? came_in_[g].slice(place_of_checksum, 8) : MemoryView{};
    side.moved.push_back(divide(side, g, key_bits - layout_.first_bits, layout_.first_bits, side.pieces[g].count + sent,
                                checksum));
  }
}

void HashParts::second_pass(Side& side, std::size_t gpu) {
  const int below = side.input.side->type.key_bits() - layout_.first_bits - layout_.second_bits;
  divide(side, gpu, below, layout_.second_bits, side.pieces[gpu].count, {});
}

std::uint64_t HashParts::first_bucket(std::size_t gpu) const {
  return ((std::uint64_t{gpu} << layout_.first_bits) + streams_.size() - 1) / streams_.size();
}

std::vector<std::uint64_t> HashParts::incoming(const Side& side, std::size_t gpu) const {
  std::vector<std::uint64_t> rows;
  for (const std::vector<std::uint64_t>& begin : side.begin)
    rows.push_back(begin[first_bucket(gpu + 1)] - begin[first_bucket(gpu)]);
  return rows;
}

bool HashParts::exchange(std::span<Side* const> sides) {
  const std::uint64_t buckets = std::uint64_t{1} << layout_.first_bits;
  std::vector<ReadBack> reads;
  std::vector<std::vector<std::uint64_t>> expected;
  for (Side* side : sides) {
    side->begin.assign(streams_.size(), std::vector<std::uint64_t>(buckets + 1));
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      std::vector<std::uint64_t>& even = expected.emplace_back(buckets + 1);
      for (std::uint64_t b = 0; b <= buckets; ++b) even[b] = side->pieces[g].count * b / buckets;
      reads.push_back({streams_[g], side->pieces[g].rows.begin, side->begin[g].data(), even.data()});
    }
  }
  runtime_.read_back(reads);
  runtime_.set_phase("exchange");
  for (const Side* side : sides)
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      std::uint64_t rows = side->pieces[g].count;
      const std::vector<std::uint64_t> from = incoming(*side, g);
      for (std::size_t source = 0; source < streams_.size(); ++source) rows += source == g ? 0 : from[source];
      if (rows > side->moved[g].count) return false;
    }
  for (Side* side : sides)
    for (std::size_t g = 0; g < streams_.size(); ++g) receive(*side, g);
  return true;
}

// Its buckets of all GPUs: its own where they are, the others' behind all that it has moved.
void HashParts::receive(Side& side, std::size_t gpu) {
  const std::uint64_t first = first_bucket(gpu), buckets = first_bucket(gpu + 1) - first, gpus = streams_.size();
  const std::vector<std::uint64_t> from = incoming(side, gpu);
  std::vector<std::uint64_t> place(gpus);
  place[gpu] = side.begin[gpu][first];
  std::uint64_t next = side.pieces[gpu].count, rows = from[gpu];
  for (std::size_t step = 1; step < gpus; ++step) {  // each from another, at any time
    const std::size_t source = (gpu + step) % gpus;
    place[source] = next;
    router_.copy(streams_[gpu], side.moved[gpu].slice(next, from[source]),
                 side.moved[source].slice(side.begin[source][first], from[source]));
    next += from[source];
    rows += from[source];
  }
  const std::uint64_t bytes = 8 * gpus * buckets;
  const MemoryView on_host =
      memory_.emplace_back(runtime_.allocate(Place::host(), 2 * bytes, "where pieces lie")).view();
  const MemoryView runs = allocate(gpu, 2 * bytes);
  runtime_.host_writes(on_host, "says where pieces lie");
  if (!runtime_.estimating()) {
    auto* const begin = reinterpret_cast<std::uint64_t*>(on_host.data);
    for (std::size_t source = 0; source < gpus; ++source)
      for (std::uint64_t b = 0; b < buckets; ++b) {
        const std::vector<std::uint64_t>& of_source = side.begin[source];
        const std::uint64_t at = place[source] + of_source[first + b] - of_source[first];
        begin[source * buckets + b] = at;
        begin[(gpus + source) * buckets + b] = at + of_source[first + b + 1] - of_source[first + b];
      }
  }
  runtime_.copy(streams_[gpu], runs, on_host);
  Piece& piece = side.pieces[gpu];
  piece.rows.keys = side.moved[gpu].keys;
  piece.rows.values = side.moved[gpu].values;
  piece.rows.begin = {};
  piece.run_begin = runs.slice(0, bytes);
  piece.run_end = runs.slice(bytes, bytes);
  piece.buckets = static_cast<std::uint32_t>(buckets);
  piece.count = rows;
}

HashParts::Checksums& HashParts::Checksums::operator+=(Checksums other) {
  probe += other.probe;
  build += other.build;
  return *this;
}

}  // namespace linkwise
