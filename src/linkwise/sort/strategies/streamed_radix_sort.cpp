#include "linkwise/sort/strategies/streamed_radix_sort.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/sort/exchange/msb_cuts.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

// Histograms need all keys; samples do not.
bool cuts_when_all_is_there(const SortPlan& plan) { return plan.splitting == Splitting::msb; }

std::uint64_t rounded(std::uint64_t bytes) { return align_up(bytes, device_alignment); }

}  // namespace

struct StreamedRadixSort::Worker {
  Place place;
  Stream compute, out;
  Buffer buffers[2], scratch;
  std::size_t arrival = 0;  // the buffer that receives; the other one is the sort's second buffer
  Event sorted;             // the previous run's buckets are sorted ...
  Event gone;               // ... and copied out
  Buffer ring;
  Buffer came_in[2];  // checksums of the pieces: of a run, and of the next one
  Buffer notes[2];    // PartNumbers of each bucket
};

StreamedRadixSort::Layout StreamedRadixSort::layout_of(const SortPlan& plan, RecordType type, std::uint64_t records) {
  Layout layout;
  layout.gpus = static_cast<int>(plan.gpus.size());
  const auto gpus = static_cast<std::uint64_t>(layout.gpus);
  const std::uint64_t share = (records + gpus - 1) / gpus;
  layout.pieces = PieceExchange::pieces_for(records, gpus, type, plan.piece_bytes);
  if (layout.pieces > 1) {
    const std::uint64_t worth_a_copy = std::max<std::uint64_t>(2 * share * type.bytes() / plan.piece_bytes, 1);
    layout.buckets = std::clamp(max_destinations / layout.gpus, 1,
                                static_cast<int>(std::min<std::uint64_t>(worth_a_copy, plan.buckets)));
  }
  if (cuts_when_all_is_there(plan)) layout.pieces = 1;
  const auto pieces = static_cast<std::uint64_t>(layout.pieces);
  layout.piece_capacity = (share + pieces - 1) / pieces + 1;
  // Slightly more records may make one more piece, and so shorter pieces. Reserving room for the longest possible
  // piece makes sure that a sort of fewer records never takes more memory than one of more records.
  const std::uint64_t piece = plan.piece_bytes / type.bytes() + 1;
  if (layout.pieces > 1) layout.piece_capacity = std::max(layout.piece_capacity, piece + piece / 2 + 1);
  layout.shortest_sorted = layout.buckets > 1 ? piece : 0;
  const std::uint64_t even = records / static_cast<std::uint64_t>(layout.parts()) + 1;
  const double error = sampling_error(static_cast<std::uint64_t>(layout.parts()), plan.samples);
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
  const std::uint64_t scratch = scratch_bytes(kernels, layout, type);
  const std::uint64_t cuts = layout.parts() > 1 ? sample_bytes(kernels, type.key, std::min(plan.samples, capacity)) +
                                                      msb_bytes(plan, layout.parts())
                                                : 0;
  return rounded(record_bytes(type, buckets * layout.bucket_capacity)) + rounded(secondary_bytes(layout, type)) +
         rounded(scratch) + layout.ring() * rounded(PieceExchange::slot_bytes(type, layout.piece_capacity)) + cuts +
         bytes_to_look_at_keys(kernels, type) + 8192;
}

std::uint64_t StreamedRadixSort::scratch_bytes(const Kernels& kernels, const Layout& layout, RecordType type) {
  const std::uint64_t sorted = std::max(layout.bucket_capacity, layout.shortest_sorted);
  return std::max(local_sort_scratch_bytes(kernels, type, sorted),
                  kernels.partition_scratch_bytes(type, layout.piece_capacity, layout.parts()));
}

// If there is only one piece, it arrives in the second buffer, which is not needed before all GPUs have sent their
// records.
std::uint64_t StreamedRadixSort::secondary_bytes(const Layout& layout, RecordType type) {
  const std::uint64_t buckets = record_bytes(type, static_cast<std::uint64_t>(layout.buckets) * layout.bucket_capacity);
  return layout.ring() > 0 ? buckets : std::max(buckets, PieceExchange::slot_bytes(type, layout.piece_capacity));
}

StreamedRadixSort::StreamedRadixSort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t capacity)
    : runtime_(runtime), plan_(plan), io_(io), layout_(layout_of(plan, io.record_type(), capacity)) {
  const RecordType type = io.record_type();
  const Kernels& kernels = runtime.kernels();
  const auto buckets = static_cast<std::uint64_t>(layout_.buckets);
  std::vector<PieceExchange::Memory> lent;
  for (const int gpu : plan.gpus) {
    const Place place = Place::gpu(gpu);
    runtime.reserve(place, bytes_per_gpu(kernels, plan, type, capacity));
    auto worker = std::make_unique<Worker>();
    worker->place = place;
    worker->compute = runtime.stream(place, "compute");
    worker->out = runtime.stream(place, "out");
    const auto allocate = [&](std::uint64_t bytes, const char* label) { return runtime.allocate(place, bytes, label); };
    worker->buffers[0] = allocate(record_bytes(type, buckets * layout_.bucket_capacity), "buckets");
    worker->buffers[1] = allocate(secondary_bytes(layout_, type), "sorted buckets");
    worker->scratch = allocate(scratch_bytes(kernels, layout_, type), "scratch");
    const std::uint64_t slot = rounded(PieceExchange::slot_bytes(type, layout_.piece_capacity));
    if (layout_.ring() > 0) worker->ring = allocate(layout_.ring() * slot, "pieces");
    std::vector<MemoryView> slots;
    for (std::uint64_t s = 0; s < layout_.ring(); ++s) slots.push_back(worker->ring.slice(s * slot, slot));
    if (slots.empty()) slots.push_back(worker->buffers[1].view());
    lent.push_back({std::move(slots), worker->scratch.view()});
    for (Buffer& sums : worker->came_in) sums = allocate(8 * static_cast<std::uint64_t>(layout_.pieces), "checksums");
    for (Buffer& notes : worker->notes) notes = allocate(sizeof(PartNumbers) * buckets, "verification");
    workers_.push_back(std::move(worker));
  }
  arrival_ = std::make_unique<PieceExchange>(runtime, plan.gpus, layout_.piece_capacity, std::move(lent));
}

StreamedRadixSort::~StreamedRadixSort() = default;

// Every run arrives, is exchanged piece by piece, and is copied out. While it is exchanged, the previous run is
// verified and the next one sampled; while it is copied out, the pieces of the next one already arrive, if there is a
// ring.
std::size_t StreamedRadixSort::sort(KeyType type, std::span<const SortRun> runs, bool as_codes,
                                    const SortOptions& options) {
  checksum_ = 0;
  const Call call{type, runs, options, layout_.ring() > 0, cuts_when_all_is_there(plan_) || layout_.parts() == 1};
  Run run = begin(call, 0), leaving, next;
  look_at_samples(call, run);
  for (std::size_t piece = 0; piece < (call.overlaps ? PieceExchange::ring_slots : 1); ++piece)
    copy_in_piece(call, piece);
  for (std::size_t r = 0; r < runs.size(); ++r, leaving = std::exchange(run, std::exchange(next, {}))) {
    const bool is_last = r + 1 == runs.size();
    if (!is_last) next = begin(call, r + 1);
    if (!receive(call, run, r > 0 ? &leaving : nullptr, is_last ? nullptr : &next)) return r;
    const bool next_overlaps = call.overlaps && !is_last;
    sort_and_copy_out(run, runs[r].output, as_codes, next_overlaps);
    if (next_overlaps) continue;
    for (const auto& worker : workers_) runtime_.wait(worker->gone);
    copy_in_piece(call, (r + 1) * static_cast<std::size_t>(layout_.pieces));
  }
  verify(leaving);
  return runs.size();
}

StreamedRadixSort::Run StreamedRadixSort::begin(const Call& call, std::size_t r) const {
  const auto pieces = static_cast<std::size_t>(layout_.pieces), parts = static_cast<std::size_t>(layout_.parts());
  const ArrivingRows rows{&io_, call.runs[r].first, call.runs[r].count, layout_.pieces, r * pieces};
  return {rows, r, {}, false, std::vector<std::uint64_t>(parts), call.options.verify};
}

// Pieces are numbered consecutively across all runs, in the order in which they take the ring's slots.
void StreamedRadixSort::copy_in_piece(const Call& call, std::size_t number) {
  const auto pieces = static_cast<std::size_t>(layout_.pieces);
  if (number < call.runs.size() * pieces)
    arrival_->copy_in(begin(call, number / pieces).rows, static_cast<int>(number % pieces));
}

// Exchanges all pieces of a run; false if a bucket would overflow.
bool StreamedRadixSort::receive(const Call& call, Run& run, const Run* leaving, Run* next) {
  // The buffers that receive now were the second buffers of the previous run's sorts.
  for (const auto& sender : workers_)
    for (const auto& receiver : workers_) runtime_.wait(sender->compute, receiver->sorted);
  const auto pieces = static_cast<std::size_t>(layout_.pieces);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    arrive(run, static_cast<int>(piece));
    if (call.cuts_late && layout_.parts() > 1) run.cuts = cuts_of_everything(run);
    if (!exchange(run, static_cast<int>(piece))) {
      runtime_.synchronize();
      if (leaving != nullptr) verify(*leaving);
      return false;
    }
    if (call.overlaps) copy_in_piece(call, run.number * pieces + piece + PieceExchange::ring_slots);
    if (piece + 2 != std::max<std::size_t>(pieces, 2)) continue;
    // Read small results back now, while no large copies leave the GPUs: the small ones would queue up behind them.
    if (leaving != nullptr) verify(*std::exchange(leaving, nullptr));
    if (next != nullptr) look_at_samples(call, *next);
  }
  return true;
}

// Decides from samples of a run's host keys how it is cut, unless that is done later, and how its buckets are sorted.
void StreamedRadixSort::look_at_samples(const Call& call, Run& run) {
  runtime_.set_phase("sample");
  std::vector<SampleSource> sources;
  const std::uint64_t gpus = workers_.size();
  for (std::uint64_t g = 0; g < gpus; ++g) {
    const std::uint64_t begin = run.rows.count * g / gpus, end = run.rows.count * (g + 1) / gpus;
    sources.push_back({workers_[g]->compute, io_.host_keys(run.rows.first + begin, end - begin),
                       samples_of(end - begin, run.rows.count, plan_.samples), begin});
  }
  const bool descending = call.options.descending;
  if (!call.cuts_late) run.cuts = choose_cuts(runtime_, call.type, descending, sources, layout_.parts());
  run.by_msd = keys_suit_msd_sort(runtime_, call.type, descending, std::move(sources), io_.record_type(),
                                  run.rows.count / static_cast<std::uint64_t>(layout_.parts()));
}

// The cuts of a run that has arrived in one piece and is encoded: from histograms or, where those cannot, from samples.
std::vector<Cut> StreamedRadixSort::cuts_of_everything(const Run& run) {
  runtime_.set_phase("histogram");
  const KeyWidth width = io_.record_type().key;
  std::vector<KeySource> keys;
  for (std::size_t g = 0; g < workers_.size(); ++g)
    keys.push_back({workers_[g]->compute, arrival_->records(run.rows, 0, g).keys});
  if (auto cuts = msb_cuts(runtime_, width, keys, layout_.parts())) return *std::move(cuts);
  std::vector<SampleSource> sources;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const RowRange rows = PieceExchange::rows_of(run.rows, 0, g, workers_.size());
    sources.push_back(
        {keys[g].stream, keys[g].keys, samples_of(rows.count(), run.rows.count, plan_.samples), rows.begin});
  }
  return choose_cuts(runtime_, code_type(width), /*descending=*/false, sources, layout_.parts());
}

// Prepares a piece for its exchange: encodes it and computes its checksum.
void StreamedRadixSort::arrive(const Run& run, int piece) {
  arrival_->encode(run.rows, piece);
  if (!run.verify) return;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const Buffer& came_in = workers_[g]->came_in[run.number % 2];
    checksum(runtime_, workers_[g]->compute, arrival_->records(run.rows, piece, g),
             came_in.slice(8 * static_cast<std::uint64_t>(piece), 8));
  }
}

bool StreamedRadixSort::exchange(Run& run, int piece) {
  // The cuts' tags are row numbers within the run.
  const auto splitters_for = [&](const RowRange& rows) {
    Splitters splitters;
    for (const Cut& cut : run.cuts) {
      splitters.key[splitters.count] = cut.code;
      splitters.position[splitters.count++] = cut.tag > rows.begin ? cut.tag - rows.begin : 0;
    }
    return splitters;
  };
  FillingParts parts;
  for (std::size_t part = 0; part < run.received.size(); ++part) parts.room.push_back(bucket(part, /*is_spare=*/false));
  parts.received = std::move(run.received);
  const bool fits = arrival_->exchange(run.rows, piece, splitters_for, parts);
  run.received = std::move(parts.received);
  return fits;
}

// A part's bucket at full capacity, in the receiving or in the spare buffer of its owner.
Records StreamedRadixSort::bucket(std::size_t part, bool is_spare) const {
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  const Worker& owner = *workers_[part / buckets];
  const Buffer& buffer = owner.buffers[is_spare ? 1 - owner.arrival : owner.arrival];
  const Records all = records_in(buffer.view(), io_.record_type(), buckets * layout_.bucket_capacity);
  return all.slice(part % buckets * layout_.bucket_capacity, layout_.bucket_capacity);
}

BitRange StreamedRadixSort::bits_of(const Run& run, std::size_t part) const {
  return open_bits(run.cuts, part, io_.record_type().key_bits());
}

// The buffer in which all buckets of a GPU are to end: that in which the one that is sorted by the most bits does.
LocalSort::Into StreamedRadixSort::where_all_end(const Run& run, std::size_t gpu) const {
  int most = 0;
  for (std::size_t b = 0; b < static_cast<std::size_t>(layout_.buckets); ++b)
    most = std::max(most, bits_of(run, gpu * static_cast<std::size_t>(layout_.buckets) + b).end);
  const bool in_spare =
      runtime_.kernels().sort_lands_in_secondary(io_.record_type(), layout_.bucket_capacity, {0, most});
  return in_spare ? LocalSort::Into::second : LocalSort::Into::first;
}

// With `next_overlaps`, one buffer of each GPU is free when its buckets are sorted: the next run arrives there while
// this one is copied out of the other.
void StreamedRadixSort::sort_and_copy_out(const Run& run, const HostOutputs& output, bool as_codes,
                                          bool next_overlaps) {
  std::vector<Event> exchanged;
  for (const auto& worker : workers_) exchanged.push_back(runtime_.record(worker->compute));
  std::vector<std::uint64_t> output_row{0};
  for (const std::uint64_t count : run.received) output_row.push_back(output_row.back() + count);
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  std::vector<LocalSort::Into> into;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    into.push_back(next_overlaps ? where_all_end(run, g) : LocalSort::Into::either);
    for (const Event event : exchanged) runtime_.wait(workers_[g]->compute, event);
    runtime_.wait(workers_[g]->compute, workers_[g]->gone);
  }
  for (std::size_t b = 0; b < buckets; ++b)
    for (std::size_t g = 0; g < workers_.size(); ++g) {
      Worker& worker = *workers_[g];
      const std::size_t part = g * buckets + b;
      const std::uint64_t count = run.received[part];
      if (count == 0) continue;
      runtime_.set_phase("sort");
      const Records primary = bucket(part, /*is_spare=*/false).slice(0, count);
      const Records secondary = bucket(part, /*is_spare=*/true).slice(0, count);
      const Records sorted = sort_locally(runtime_, worker.compute, primary, secondary,
                                          {bits_of(run, part), run.by_msd, into[g]}, worker.scratch.view());
      if (run.verify)
        check_part(runtime_, worker.compute, own_codes(sorted.type.key), sorted,
                   worker.notes[run.number % 2].slice(sizeof(PartNumbers) * b, sizeof(PartNumbers)));
      MemoryView keys = sorted.keys;
      if (!as_codes && output.keys != nullptr) keys = io_.decode_sorted(worker.compute, sorted, primary, secondary);
      runtime_.set_phase("DtoH");
      runtime_.wait(worker.out, runtime_.record(worker.compute));
      io_.copy_out(worker.out, output_row[part], sorted, keys, keys.bytes / count, output);
    }
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = *workers_[g];
    worker.sorted = runtime_.record(worker.compute);
    worker.gone = runtime_.record(worker.out);
    if (into[g] == LocalSort::Into::first) worker.arrival = 1 - worker.arrival;
  }
}

void StreamedRadixSort::verify(const Run& run) {
  if (!run.verify) return;
  runtime_.set_phase("verify");
  const auto buckets = static_cast<std::size_t>(layout_.buckets);
  std::vector<std::vector<std::uint64_t>> came_in;
  std::vector<PartNumbers> came_out(run.received.size());
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    came_in.emplace_back(static_cast<std::size_t>(layout_.pieces));
    reads.push_back({workers_[g]->compute, workers_[g]->came_in[run.number % 2].view(), came_in[g].data()});
    reads.push_back({workers_[g]->compute, workers_[g]->notes[run.number % 2].view(), &came_out[g * buckets]});
  }
  runtime_.read_back(reads);
  ResultCheck check(io_.record_type().key);
  for (const auto& of_worker : came_in)
    for (const std::uint64_t piece : of_worker) check.came_in(piece);
  for (std::size_t part = 0; part < run.received.size(); ++part)
    if (run.received[part] > 0) check.came_out(workers_[part / buckets]->place, came_out[part]);
  check.finish();
  checksum_ += check.checksum();
}

}  // namespace linkwise
