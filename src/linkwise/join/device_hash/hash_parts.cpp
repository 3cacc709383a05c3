#include "linkwise/join/device_hash/hash_parts.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "linkwise/join/replicate.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t spare_rows = 4096;
constexpr std::uint64_t most_batches = 4, usual_batch_rows = 1 << 24;
constexpr double fill = 0.85;  // load of a table by a part of average length

// The most rows that fit, with values of at most 4 bytes. A build side this short saves the longer side a pass.
std::uint32_t most_table_rows(KeyWidth width) { return width == KeyWidth::k32 ? 14336 : 10240; }

// Reduces `rows` until the table fits in a block's shared memory, beside a bit for each probe row of a task.
std::uint32_t fitting(std::uint32_t rows, const HashedSides& sides, std::uint64_t block_bytes) {
  constexpr std::uint64_t others = usual_task_rows / 8 + 1024;
  const auto key_bytes = static_cast<std::uint32_t>(sides.build.key);
  const auto value_bytes = static_cast<int>(sides.build.value_bytes());
  while (HashTableShape(rows, value_bytes, sides.build_emits).table_bytes(key_bytes) + others > block_bytes)
    rows -= std::max(rows / 8, 1U);
  return rows;
}

}  // namespace

std::uint32_t usual_table_rows(KeyWidth width) { return width == KeyWidth::k32 ? 8192 : 4608; }

HashLayout layout_hash_join(const HashedSides& sides, std::size_t gpus, std::uint64_t block_bytes) {
  const auto [build, build_rows, probe_rows, build_emits, table_rows] = sides;
  HashLayout layout;
  layout.table_rows = fitting(table_rows > 0 ? table_rows : usual_table_rows(build.key), sides, block_bytes);
  const std::uint32_t most = fitting(most_table_rows(build.key), sides, block_bytes);
  if (table_rows == 0 && layout.table_rows < build_rows && build_rows <= most && build.value_bytes() <= 4 &&
      !build_emits)
    layout.table_rows = static_cast<std::uint32_t>(build_rows);
  layout.batch_rows = table_rows > 0 ? 8 * std::uint64_t{table_rows} : usual_batch_rows;
  // Replicate the build side if it fits one table, or if that sends no more rows than exchanging the probe side.
  layout.replicates =
      gpus > 1 && !build_emits && (build_rows <= layout.table_rows || 2 * gpus * build_rows <= probe_rows);
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
  const int to_spread =
      static_cast<int>(std::bit_width(gpus - 1)) + 3;  // several buckets per GPU, so that their shares are even
  layout.first_bits = std::max((bits + 1) / 2, to_spread);
  layout.second_bits = std::max(bits - layout.first_bits, 0);
  return layout;
}

HashParts::HashParts(Runtime& runtime, std::span<const Stream> streams, Router& router, const HashLayout& layout,
                     bool verify)
    : runtime_(runtime), streams_(streams), router_(router), layout_(layout), verify_(verify) {}

void HashParts::start_dividing(const Input& build, const Input& probe) {
  build_.input = build;
  probe_.input = probe;
  start(build_);
  start(probe_);
  if (layout_.replicates) replicate_build();
  if (layout_.first_bits > 0)
    for (Side* side : {&build_, &probe_}) prepare_first_pass(*side);
  if (layout_.replicates) {
    divide_to(probe_, 1);  // while the copies are on their way
    await_copies();
  }
  divide_to(build_, 1);
}

bool HashParts::bring_together(const std::function<bool()>& is_worth_it) {
  if (!exchanges()) divide_to(probe_, 1);
  const std::function<bool()> always = [] { return true; };
  for (Side* side : {&build_, &probe_}) {
    if (exchanges() && !exchange(*side, side == &build_ ? is_worth_it : always)) return false;
    runtime_.set_phase("partition");
    for (std::size_t g = 0; (exchanges() || layout_.second_bits > 0) && g < streams_.size(); ++g) second_pass(*side, g);
  }
  if (!exchanges() && !is_worth_it()) return false;
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    const Piece& piece = build_.pieces[g];
    on_gpus_.push_back({piece.rows, probe_.pieces[g].rows, piece.buckets,
                        exchanges() ? static_cast<std::uint32_t>(first_bucket(g) << layout_.second_bits) : 0});
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
    piece.rows = {from.key_type,
                  records.keys,
                  carries ? records.values : MemoryView{},
                  side.input.value_type,
                  from.first_rows[g],
                  false,
                  {}};
    piece.count = records.count;
    side.pieces.push_back(std::move(piece));
  }
}

RecordType HashParts::copied_type() const {
  const DeviceSide& from = *build_.input.side;
  const bool carries_values = build_.input.value != ValueWidth::none && from.columns->value_width != ValueWidth::none;
  return {from.type.key, carries_values ? from.type.value : ValueWidth::none};
}

void HashParts::replicate_build() {
  runtime_.set_phase("exchange");
  const DeviceSide& from = *build_.input.side;
  const RecordType type = copied_type();
  std::vector<Records> copies;
  for (std::size_t g = 0; g < streams_.size(); ++g)
    copies.push_back(records_in(allocate(g, record_bytes(type, from.rows)), type, from.rows));
  std::vector<Stream> receivers;
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    receivers.push_back(receiver(g));
    runtime_.wait(receivers[g], runtime_.record(streams_[g]));
  }
  replicate(runtime_, router_, receivers, from, copies);
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    Piece& piece = build_.pieces[g];
    piece.rows.first_row = 0;
    piece.rows.keys = copies[g].keys;
    piece.rows.values = copies[g].values;
    piece.count = from.rows;
  }
}

void HashParts::await_copies() {
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    runtime_.wait(streams_[g], runtime_.record(receiver(g)));
    if (!verify_) continue;
    Piece& piece = build_.pieces[g];
    piece.copied = allocate(g, sizeof(Copied));
    Records own = build_.input.side->records[g];
    own.type = copied_type();
    const Records all{own.type, piece.count, piece.rows.keys, piece.rows.values};
    checksum(runtime_, streams_[g], own, piece.copied.slice(offsetof(Copied, own), 8));
    checksum(runtime_, streams_[g], all, piece.copied.slice(offsetof(Copied, all), 8));
  }
}

MemoryView HashParts::run_pass(std::size_t gpu, const HashPass& pass, const Records& to, const MemoryView& checksum) {
  const Kernels& kernels = runtime_.kernels();
  const std::uint64_t parts = pass.parts();
  const MemoryView scratch =
      allocate(gpu, std::max(hash_pass_scratch_bytes(kernels, pass), kernels.running_sums_scratch_bytes(parts)));
  const MemoryView counts = allocate(gpu, 8 * parts), begin = allocate(gpu, 8 * (parts + 1));
  count_digits(runtime_, streams_[gpu], pass, scratch, counts);
  running_sums(runtime_, streams_[gpu], {8, false}, counts, begin, scratch);
  move_to_parts(runtime_, streams_[gpu], pass, begin, to, scratch, checksum);
  return begin;
}

void HashParts::prepare_first_pass(Side& side) {
  const std::uint64_t gpus = streams_.size(), share = side.input.side->rows / gpus;
  const RecordType type{side.input.side->type.key, side.input.value};
  // Records from other GPUs are stored behind this GPU's own, most of which it sends away.
  const std::uint64_t sent = exchanges() ? share + share / 8 + spare_rows : 0;
  side.batches = exchanges() ? std::clamp<std::uint64_t>(share / layout_.batch_rows, 1, most_batches) : 1;
  for (std::size_t g = 0; g < gpus; ++g) {
    Piece& piece = side.pieces[g];
    piece.filled = piece.count;
    const std::uint64_t room = piece.count + sent;
    piece.moved_memory = runtime_.allocate(streams_[g].place, record_bytes(type, room), "hash join");
    piece.moved = records_in(piece.moved_memory.view(), type, room);
  }
}

void HashParts::divide_to(Side& side, double share) {
  if (layout_.first_bits <= 0 || side.divided == side.batches) return;
  runtime_.set_phase("partition");
  for (; side.divided < share * static_cast<double>(side.batches); ++side.divided)
    for (std::size_t g = 0; g < streams_.size(); ++g) divide_batch(side, g, side.divided);
  if (side.divided < side.batches) return;
  const std::uint64_t bytes = 8ULL << layout_.first_bits;  // a bucket ends where the next one begins
  for (Piece& piece : side.pieces) {
    piece.rows = {
        code_type(side.input.side->type.key), piece.moved.keys, piece.moved.values, side.input.value_type, 0, true,
        piece.batches.front().begin};
    piece.buckets = 1U << layout_.first_bits;
    piece.run_begin = piece.rows.begin.slice(0, bytes);
    piece.run_end = piece.rows.begin.slice(8, bytes);
  }
}

void HashParts::divide_batch(Side& side, std::size_t gpu, std::uint64_t number) {
  Piece& piece = side.pieces[gpu];
  const int bits = layout_.first_bits, shift = side.input.side->type.key_bits() - bits;
  Batch batch;
  batch.first = piece.count * number / side.batches;
  batch.rows = piece.count * (number + 1) / side.batches - batch.first;
  if (verify_) batch.checksum = allocate(gpu, 8);
  const HashPass pass{piece.rows.slice(batch.first, batch.rows), side.input.value, {}, {}, 1, batch.rows, shift, bits};
  batch.begin = run_pass(gpu, pass, piece.moved.slice(batch.first, batch.rows), batch.checksum);
  if (exchanges()) batch.divided = runtime_.record(streams_[gpu]);
  piece.batches.push_back(std::move(batch));
}

std::uint64_t HashParts::first_bucket(std::size_t gpu) const {
  return ((std::uint64_t{gpu} << layout_.first_bits) + streams_.size() - 1) / streams_.size();
}

// Sends the batches of a side as they become ready. Before each wait, more of the probe side's first pass is
// enqueued.
bool HashParts::exchange(Side& side, const std::function<bool()>& is_worth_it) {
  const std::uint64_t buckets = std::uint64_t{1} << layout_.first_bits;
  for (std::size_t b = 0; b < side.batches; ++b) {
    divide_to(probe_, static_cast<double>(b + 1) / static_cast<double>(side.batches));
    std::vector<ReadBack> reads;
    std::vector<std::vector<std::uint64_t>> expected;
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      Batch& batch = side.pieces[g].batches[b];
      batch.begins.resize(buckets + 1);
      std::vector<std::uint64_t>& even = expected.emplace_back(buckets + 1);
      for (std::uint64_t i = 0; i <= buckets; ++i) even[i] = batch.rows * i / buckets;
      const Stream counter = runtime_.stream(streams_[g].place, "counts");  // not behind copies of rows
      runtime_.wait(counter, batch.divided);
      reads.push_back({counter, batch.begin, batch.begins.data(), even.data()});
    }
    runtime_.read_back(reads);
    runtime_.set_phase("exchange");
    for (std::size_t g = 0; g < streams_.size(); ++g)
      if (!receive(side, g, b)) return false;
    if (b == 0 && !is_worth_it()) return false;
  }
  for (std::size_t g = 0; g < streams_.size(); ++g) send_runs(side.pieces[g], g);
  return true;
}

void HashParts::send_runs(Piece& piece, std::size_t gpu) {
  const std::uint64_t bytes = 8 * piece.begins.size();
  const MemoryView on_host =
      memory_.emplace_back(runtime_.allocate(Place::host(), 2 * bytes, "where pieces lie")).view();
  runtime_.host_writes(on_host, "says where pieces lie");
  if (!runtime_.estimating()) {
    std::memcpy(on_host.data, piece.begins.data(), bytes);
    std::memcpy(on_host.data + bytes, piece.ends.data(), bytes);
  }
  const MemoryView runs = allocate(gpu, 2 * bytes);
  runtime_.copy(receiver(gpu), runs, on_host);
  runtime_.wait(streams_[gpu], runtime_.record(receiver(gpu)));
  piece.run_begin = runs.slice(0, bytes);
  piece.run_end = runs.slice(bytes, bytes);
}

// Collects a GPU's buckets of one batch from all GPUs: its own stay in place, the others' are appended. Returns false
// if there is no room.
bool HashParts::receive(Side& side, std::size_t gpu, std::size_t batch) {
  Piece& piece = side.pieces[gpu];
  const std::uint64_t first = first_bucket(gpu), end = first_bucket(gpu + 1), gpus = streams_.size();
  piece.buckets = static_cast<std::uint32_t>(end - first);
  piece.count = batch == 0 ? 0 : piece.count;
  for (std::size_t step = 0; step < gpus; ++step) {  // so that each GPU copies from a different one
    const std::size_t source = (gpu + step) % gpus;
    const Batch& sent = side.pieces[source].batches[batch];
    const std::uint64_t rows = sent.begins[end] - sent.begins[first], from = sent.first + sent.begins[first];
    std::uint64_t at = from;
    if (source != gpu) {
      at = piece.filled;
      piece.filled += rows;
      if (piece.filled > piece.moved.count) return false;
      router_.copy(receiver(gpu), piece.moved.slice(at, rows), side.pieces[source].moved.slice(from, rows));
    }
    piece.count += rows;
    for (std::uint64_t b = first; b < end; ++b) {
      piece.begins.push_back(at + sent.begins[b] - sent.begins[first]);
      piece.ends.push_back(at + sent.begins[b + 1] - sent.begins[first]);
    }
  }
  return true;
}

void HashParts::second_pass(Side& side, std::size_t gpu) {
  Piece& piece = side.pieces[gpu];
  const int shift = side.input.side->type.key_bits() - layout_.first_bits - layout_.second_bits;
  const HashPass pass{piece.rows,    side.input.value, piece.run_begin, piece.run_end,
                      piece.buckets, piece.count,      shift,           layout_.second_bits};
  const RecordType type{side.input.side->type.key, side.input.value};
  const Records to = records_in(allocate(gpu, record_bytes(type, piece.count)), type, piece.count);
  const MemoryView begin = run_pass(gpu, pass, to, {});
  runtime_.retire(std::move(piece.moved_memory));
  piece.rows.keys = to.keys;
  piece.rows.values = to.values;
  piece.rows.begin = begin;
  piece.buckets = static_cast<std::uint32_t>(pass.parts());
}

HashParts::Checksums& HashParts::Checksums::operator+=(Checksums other) {
  probe += other.probe;
  build += other.build;
  return *this;
}

void HashParts::read_came_in(std::vector<ReadBack>& reads) {
  for (Side* side : {&build_, &probe_})
    for (std::size_t g = 0; g < streams_.size(); ++g)
      for (Batch& batch : side->pieces[g].batches) reads.push_back({streams_[g], batch.checksum, &batch.came_in});
  for (std::size_t g = 0; layout_.replicates && g < streams_.size(); ++g)
    reads.push_back({streams_[g], build_.pieces[g].copied, &build_.pieces[g].checksums});
}

bool HashParts::copies_agree() const {
  std::uint64_t all = 0;
  for (const Piece& piece : build_.pieces) all += piece.checksums.own;
  return !layout_.replicates ||
         std::ranges::all_of(build_.pieces, [&](const Piece& piece) { return piece.checksums.all == all; });
}

HashParts::Checksums HashParts::came_in() const {
  const auto sum_of = [](const Side& side) {
    std::uint64_t sum = 0;
    for (const Piece& piece : side.pieces)
      for (const Batch& batch : piece.batches) sum += batch.came_in;
    return sum;
  };
  return {sum_of(probe_), sum_of(build_)};
}

}  // namespace linkwise
