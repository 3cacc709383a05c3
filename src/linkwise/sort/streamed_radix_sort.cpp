#include "linkwise/sort/streamed_radix_sort.hpp"

#include <algorithm>
#include <cmath>

#include "linkwise/device/arena.hpp"
#include "linkwise/sort/msb_cuts.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

constexpr int max_pieces = 16;  // more hide no more and cost a round trip to the host each

// Histograms need all keys.
bool cuts_when_all_is_there(const SortPlan& plan) { return plan.splitting == Splitting::msb; }

std::uint64_t rounded(std::uint64_t bytes) { return align_up(bytes, device_alignment); }

}  // namespace

struct StreamedRadixSort::Worker {
  Place place;
  Stream in, compute, out;
  Buffer primary, secondary, scratch;
  Buffer ring;
  MemoryView slots[ring_slots];
  Event slot_full[ring_slots], slot_free[ring_slots];
  Buffer totals;   // of a piece, by part
  Buffer came_in;  // checksums of the pieces
  Buffer notes;    // PartNumbers of each bucket
};

StreamedRadixSort::Layout StreamedRadixSort::layout_of(const SortPlan& plan, RecordType type, std::uint64_t records) {
  Layout layout;
  layout.gpus = static_cast<int>(plan.gpus.size());
  const auto gpus = static_cast<std::uint64_t>(layout.gpus);
  const std::uint64_t share = (records + gpus - 1) / gpus;
  layout.pieces = static_cast<int>(std::clamp<std::uint64_t>(share * type.bytes() / plan.piece_bytes, 1, max_pieces));
  if (layout.pieces > 1) {
    const std::uint64_t worth_a_copy = std::max<std::uint64_t>(2 * share * type.bytes() / plan.piece_bytes, 1);
    layout.buckets = std::clamp(max_destinations / layout.gpus, 1,
                                static_cast<int>(std::min<std::uint64_t>(worth_a_copy, plan.buckets)));
  }
  if (cuts_when_all_is_there(plan)) layout.pieces = 1;
  const auto pieces = static_cast<std::uint64_t>(layout.pieces);
  layout.piece_capacity = (share + pieces - 1) / pieces + 1;
  const std::uint64_t even = records / static_cast<std::uint64_t>(layout.parts()) + 1;
  // Sampling errs by about sqrt(parts / samples) of a part; five times that never happens.
  const double error = 5 * std::sqrt(static_cast<double>(layout.parts()) / static_cast<double>(plan.samples));
  const bool cuts_exactly = records <= plan.samples && !cuts_when_all_is_there(plan);
  const double slack = layout.parts() == 1 || cuts_exactly ? 0 : std::max(plan.slack, error);
  const auto extra = static_cast<std::uint64_t>(std::ceil(slack * static_cast<double>(even)));
  layout.bucket_capacity = (std::min(records, even + extra) + 31) / 32 * 32;
  return layout;
}

std::uint64_t StreamedRadixSort::bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type,
                                               std::uint64_t capacity) {
  const Layout layout = layout_of(plan, type, capacity);
  const auto buckets = static_cast<std::uint64_t>(layout.buckets);
  const std::uint64_t scratch = std::max(kernels.sort_scratch_bytes(type, layout.bucket_capacity),
                                         kernels.partition_scratch_bytes(type, layout.piece_capacity, layout.parts()));
  const std::uint64_t cuts = layout.parts() > 1 ? sample_bytes(kernels, type.key, std::min(plan.samples, capacity)) +
                                                      msb_bytes(plan, layout.parts())
                                                : 0;
  return rounded(record_bytes(type, buckets * layout.bucket_capacity)) + rounded(secondary_bytes(layout, type)) +
         rounded(scratch) + layout.ring() * rounded(slot_bytes(layout, type)) + cuts + 8192;
}

// A slot has room for native keys behind the records.
std::uint64_t StreamedRadixSort::slot_bytes(const Layout& layout, RecordType type) {
  return rounded(record_bytes(type, layout.piece_capacity)) + layout.piece_capacity * type.key_bytes() / 2;
}

// Where one piece is all, it arrives in the secondary buffer, which is not needed before everyone has sent it.
std::uint64_t StreamedRadixSort::secondary_bytes(const Layout& layout, RecordType type) {
  const std::uint64_t buckets = record_bytes(type, static_cast<std::uint64_t>(layout.buckets) * layout.bucket_capacity);
  return layout.ring() > 0 ? buckets : std::max(buckets, slot_bytes(layout, type));
}

StreamedRadixSort::StreamedRadixSort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t capacity)
    : runtime_(runtime), plan_(plan), io_(io), layout_(layout_of(plan, io.record_type(), capacity)) {
  const RecordType type = io.record_type();
  const Kernels& kernels = runtime.kernels();
  const auto buckets = static_cast<std::uint64_t>(layout_.buckets);
  for (const int gpu : plan.gpus) {
    const Place place = Place::gpu(gpu);
    runtime.reserve(place, bytes_per_gpu(kernels, plan, type, capacity));
    auto worker = std::make_unique<Worker>();
    worker->place = place;
    worker->in = runtime.stream(place, "in");
    worker->compute = runtime.stream(place, "compute");
    worker->out = runtime.stream(place, "out");
    const auto allocate = [&](std::uint64_t bytes, const char* label) { return runtime.allocate(place, bytes, label); };
    worker->primary = allocate(record_bytes(type, buckets * layout_.bucket_capacity), "buckets");
    worker->secondary = allocate(secondary_bytes(layout_, type), "sorted buckets");
    worker->scratch = allocate(std::max(kernels.sort_scratch_bytes(type, layout_.bucket_capacity),
                                        kernels.partition_scratch_bytes(type, layout_.piece_capacity, layout_.parts())),
                               "scratch");
    const std::uint64_t slot = rounded(slot_bytes(layout_, type));
    if (layout_.ring() > 0) worker->ring = allocate(layout_.ring() * slot, "pieces");
    for (std::uint64_t s = 0; s < std::max<std::uint64_t>(layout_.ring(), 1); ++s)
      worker->slots[s] = layout_.ring() > 0 ? worker->ring.slice(s * slot, slot)
                                            : worker->secondary.slice(0, slot_bytes(layout_, type));
    worker->totals = allocate(8 * max_destinations, "totals");
    worker->came_in = allocate(8 * static_cast<std::uint64_t>(layout_.pieces), "checksums");
    worker->notes = allocate(sizeof(PartNumbers) * buckets, "verification");
    workers_.push_back(std::move(worker));
  }
}

StreamedRadixSort::~StreamedRadixSort() = default;

bool StreamedRadixSort::sort(KeyType type, std::uint64_t first, std::uint64_t count, const HostOutputs& output,
                             bool as_codes, const SortOptions& options) {
  Run run{first, count, {}, {}, options.verify};
  run.received.resize(static_cast<std::size_t>(layout_.parts()), 0);
  const bool cuts_late = cuts_when_all_is_there(plan_);
  if (layout_.parts() > 1 && !cuts_late) run.cuts = sample_cuts(type, options.descending, run);
  for (int piece = 0; piece < std::min(ring_slots, layout_.pieces); ++piece) copy_in(run, piece);
  for (int piece = 0; piece < layout_.pieces; ++piece) {
    arrive(run, piece);
    if (layout_.parts() > 1 && cuts_late) run.cuts = cuts_of_everything(run);
    if (!exchange(run, piece)) {
      runtime_.synchronize();
      return false;
    }
    if (piece + ring_slots < layout_.pieces) copy_in(run, piece + ring_slots);
  }
  sort_and_copy_out(run, output, as_codes);
  for (const auto& worker : workers_) runtime_.wait(runtime_.record(worker->out));
  if (options.verify) verify(run);
  return true;
}

std::vector<Cut> StreamedRadixSort::sample_cuts(KeyType type, bool descending, const Run& run) {
  runtime_.set_phase("sample");
  std::vector<SampleSource> sources;
  const std::uint64_t gpus = workers_.size();
  for (std::uint64_t g = 0; g < gpus; ++g) {
    const std::uint64_t begin = run.count * g / gpus, end = run.count * (g + 1) / gpus;
    sources.push_back({workers_[g]->compute, io_.host_keys(run.first + begin, end - begin),
                       samples_of(end - begin, run.count, plan_.samples), begin});
  }
  return choose_cuts(runtime_, type, descending, sources, layout_.parts());
}

// The same when all has arrived, in one piece, and is encoded: from histograms, or from samples where those cannot.
std::vector<Cut> StreamedRadixSort::cuts_of_everything(const Run& run) {
  runtime_.set_phase("histogram");
  const KeyWidth width = io_.record_type().key;
  std::vector<KeySource> keys;
  for (std::size_t g = 0; g < workers_.size(); ++g)
    keys.push_back({workers_[g]->compute, slot_of(run, 0, g).records.keys});
  if (auto cuts = msb_cuts(runtime_, width, keys, layout_.parts())) return *std::move(cuts);
  std::vector<SampleSource> sources;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const Rows rows = rows_of(run, 0, g);
    sources.push_back({keys[g].stream, keys[g].keys, samples_of(rows.count(), run.count, plan_.samples), rows.begin});
  }
  return choose_cuts(runtime_, code_type(width), /*descending=*/false, sources, layout_.parts());
}

// The rows of a piece that one GPU takes, counted from the first row of the run.
StreamedRadixSort::Rows StreamedRadixSort::rows_of(const Run& run, int piece, std::size_t gpu) const {
  const auto pieces = static_cast<std::uint64_t>(layout_.pieces), p = static_cast<std::uint64_t>(piece);
  const std::uint64_t begin = run.count * p / pieces, length = run.count * (p + 1) / pieces - begin;
  return {begin + length * gpu / workers_.size(), begin + length * (gpu + 1) / workers_.size()};
}

StreamedRadixSort::Slot StreamedRadixSort::slot_of(const Run& run, int piece, std::size_t gpu) const {
  const Rows rows = rows_of(run, piece, gpu);
  const RecordType type = io_.record_type();
  const MemoryView& memory = workers_[gpu]->slots[piece % ring_slots];
  const std::uint64_t native_at = rounded(record_bytes(type, layout_.piece_capacity));
  const std::uint64_t native_bytes = io_.is_narrow() ? rows.count() * io_.native_key_bytes() : 0;
  return {records_in(memory, type, rows.count()), memory.slice(native_at, native_bytes)};
}

void StreamedRadixSort::copy_in(const Run& run, int piece) {
  runtime_.set_phase("HtoD");
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = *workers_[g];
    const Slot slot = slot_of(run, piece, g);
    runtime_.wait(worker.in, worker.slot_free[piece % ring_slots]);
    io_.copy_in(worker.in, run.first + rows_of(run, piece, g).begin, slot.records, slot.native);
    worker.slot_full[piece % ring_slots] = runtime_.record(worker.in);
  }
}

// Splitters as a range of rows sees them: the cuts' tags are rows of the run.
Splitters StreamedRadixSort::splitters_for(const Run& run, const Rows& rows) {
  Splitters splitters;
  for (const Cut& cut : run.cuts) {
    splitters.key[splitters.count] = cut.code;
    splitters.position[splitters.count++] = cut.tag > rows.begin ? cut.tag - rows.begin : 0;
  }
  return splitters;
}

// What a piece is before it is exchanged: codes, and their checksum.
void StreamedRadixSort::arrive(const Run& run, int piece) {
  runtime_.set_phase("partition");
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const Worker& worker = *workers_[g];
    const Slot slot = slot_of(run, piece, g);
    runtime_.wait(worker.compute, worker.slot_full[piece % ring_slots]);
    io_.encode_rows(worker.compute, run.first + rows_of(run, piece, g).begin, slot.records, slot.native);
    if (run.verify)
      checksum(runtime_, worker.compute, slot.records, worker.came_in.slice(8 * static_cast<std::uint64_t>(piece), 8));
  }
}

// Counts a piece by destination and stores its records into their buckets. While the host waits for the counts, the
// copies of the next pieces are on their way.
bool StreamedRadixSort::exchange(Run& run, int piece) {
  runtime_.set_phase("partition");
  const auto parts = static_cast<std::size_t>(layout_.parts());
  std::vector<std::vector<std::uint64_t>> counts(workers_.size(), std::vector<std::uint64_t>(parts)), expected = counts;
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = *workers_[g];
    const Rows rows = rows_of(run, piece, g);
    const Slot slot = slot_of(run, piece, g);
    const MemoryView totals = worker.totals.slice(0, 8 * parts);
    partition_count(runtime_, worker.compute, slot.records, splitters_for(run, rows), worker.scratch.view(), totals);
    for (std::size_t part = 0; part < parts; ++part)
      expected[g][part] = rows.count() * (part + 1) / parts - rows.count() * part / parts;
    reads.push_back({worker.compute, totals, counts[g].data(), expected[g].data()});
  }
  runtime_.read_back(reads);

  runtime_.set_phase("exchange");
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = *workers_[g];
    std::vector<Records> destinations;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::uint64_t begin = run.received[part], length = counts[g][part];
      if (begin + length > layout_.bucket_capacity) return false;
      destinations.push_back(bucket(part, &Worker::primary).slice(begin, length));
      run.received[part] += length;
    }
    partition(runtime_, worker.compute, slot_of(run, piece, g).records, splitters_for(run, rows_of(run, piece, g)),
              worker.scratch.view(), destinations);
    worker.slot_free[piece % ring_slots] = runtime_.record(worker.compute);
  }
  return true;
}

// A part's bucket, at full capacity, in one of the two buffers of the GPU that owns it.
Records StreamedRadixSort::bucket(std::size_t part, Buffer Worker::* buffer) const {
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  const Worker& owner = *workers_[part / buckets];
  const Records all = records_in((owner.*buffer).view(), io_.record_type(), buckets * layout_.bucket_capacity);
  return all.slice(part % buckets * layout_.bucket_capacity, layout_.bucket_capacity);
}

void StreamedRadixSort::sort_and_copy_out(const Run& run, const HostOutputs& output, bool as_codes) {
  std::vector<Event> exchanged;
  for (const auto& worker : workers_) exchanged.push_back(runtime_.record(worker->compute));
  std::vector<std::uint64_t> output_row{0};
  for (const std::uint64_t count : run.received) output_row.push_back(output_row.back() + count);
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  for (std::size_t b = 0; b < buckets; ++b)
    for (std::size_t g = 0; g < workers_.size(); ++g) {
      Worker& worker = *workers_[g];
      if (b == 0)
        for (const Event event : exchanged) runtime_.wait(worker.compute, event);
      const std::size_t part = g * buckets + b;
      const std::uint64_t count = run.received[part];
      if (count == 0) continue;
      runtime_.set_phase("sort");
      const Records primary = bucket(part, &Worker::primary).slice(0, count);
      const Records secondary = bucket(part, &Worker::secondary).slice(0, count);
      const BitRange bits = open_bits(run.cuts, part, primary.type.key_bits());
      const Records sorted = linkwise::sort(runtime_, worker.compute, primary, secondary, bits, worker.scratch.view());
      if (run.verify)
        note_part(runtime_, worker.compute, sorted, worker.notes.slice(sizeof(PartNumbers) * b, sizeof(PartNumbers)));
      MemoryView keys = sorted.keys;
      if (!as_codes && output.keys != nullptr) keys = io_.decode_sorted(worker.compute, sorted, primary, secondary);
      runtime_.set_phase("DtoH");
      runtime_.wait(worker.out, runtime_.record(worker.compute));
      io_.copy_out(worker.out, output_row[part], sorted, keys, keys.bytes / count, output);
    }
}

void StreamedRadixSort::verify(const Run& run) {
  runtime_.set_phase("verify");
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  std::vector<std::vector<std::uint64_t>> came_in;
  std::vector<PartNumbers> came_out(run.received.size());
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    came_in.emplace_back(static_cast<std::size_t>(layout_.pieces));
    reads.push_back({workers_[g]->compute, workers_[g]->came_in.view(), came_in[g].data()});
    reads.push_back({workers_[g]->compute, workers_[g]->notes.view(), &came_out[g * buckets]});
  }
  runtime_.read_back(reads);
  ResultCheck check(io_.record_type().key);
  for (const auto& of_worker : came_in)
    for (const std::uint64_t piece : of_worker) check.came_in(piece);
  for (std::size_t part = 0; part < run.received.size(); ++part)
    if (run.received[part] > 0) check.came_out(workers_[part / buckets]->place, came_out[part]);
  check.finish();
  checksum_ = check.checksum();
}

}  // namespace linkwise
