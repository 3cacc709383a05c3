#include "linkwise/join/in_core/relation_exchange.hpp"

#include <algorithm>

#include "linkwise/device/arena.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t slots_of_gpu = 8;  // so that pieces keep arriving while the splitters are chosen

std::vector<ArrivingRows> arriving(const SortPlan& plan, std::span<const Batch> batches) {
  std::vector<ArrivingRows> all;
  std::size_t pieces = 0;
  for (const Batch& batch : batches) {
    const int of_batch =
        PieceExchange::pieces_for(batch.count, plan.gpus.size(), batch.io->record_type(), plan.piece_bytes);
    all.push_back({batch.io, batch.first, batch.count, of_batch, pieces});
    pieces += static_cast<std::size_t>(of_batch);
  }
  return all;
}

}  // namespace

std::uint64_t RelationExchange::piece_rows(const SortPlan& plan, RecordType type, std::uint64_t count) {
  const std::uint64_t gpus = plan.gpus.size();
  return count / static_cast<std::uint64_t>(PieceExchange::pieces_for(count, gpus, type, plan.piece_bytes)) / gpus + 2;
}

std::uint64_t RelationExchange::bytes_per_gpu(const SortPlan& plan, RecordType type, std::uint64_t count) {
  return slots_of_gpu * align_up(PieceExchange::slot_bytes(type, piece_rows(plan, type, count)), device_alignment) +
         (64 << 10);
}

RelationExchange::RelationExchange(Runtime& runtime, const SortPlan& plan, std::span<const Batch> batches,
                                   std::vector<MemoryView> scratch, bool verify)
    : runtime_(runtime), verify_(verify), arriving_(arriving(plan, batches)) {
  std::uint64_t longest = 0, slot = 0;
  for (const Batch& batch : batches)
    longest = std::max(longest, piece_rows(plan, batch.io->record_type(), batch.count));
  for (const Batch& batch : batches)
    slot = std::max(slot, align_up(PieceExchange::slot_bytes(batch.io->record_type(), longest), device_alignment));
  const std::uint64_t pieces = arriving_.back().first_piece + static_cast<std::size_t>(arriving_.back().pieces);
  std::vector<PieceExchange::Memory> lent;
  for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
    const Place place = Place::gpu(plan.gpus[g]);
    slots_.push_back(runtime.allocate(place, slots_of_gpu * slot, "pieces"));
    came_in_.push_back(runtime.allocate(place, 8 * pieces, "checksums"));
    notes_.push_back(runtime.allocate(place, sizeof(PartNumbers) * batches.size(), "verification"));
    std::vector<MemoryView> slots;
    for (std::uint64_t s = 0; s < slots_of_gpu; ++s) slots.push_back(slots_[g].slice(s * slot, slot));
    lent.push_back({std::move(slots), scratch[g]});
  }
  for (const Batch& batch : batches) is_split_.push_back(batch.is_split);
  noted_.assign(batches.size(), std::vector<bool>(plan.gpus.size(), false));
  note_streams_.resize(plan.gpus.size());
  exchange_ = std::make_unique<PieceExchange>(runtime, plan.gpus, longest, std::move(lent));
}

void RelationExchange::start() {
  for (std::uint64_t slot = 0; slot < slots_of_gpu; ++slot) copy_in_next();
}

void RelationExchange::copy_in_next() {
  if (next_batch_ == arriving_.size()) return;
  exchange_->copy_in(arriving_[next_batch_], next_piece_);
  if (++next_piece_ < arriving_[next_batch_].pieces) return;
  next_piece_ = 0;
  ++next_batch_;
}

void RelationExchange::receive(std::size_t batch, const JoinSplitters& cuts, FillingParts& parts) {
  const ArrivingRows& rows = arriving_[batch];
  const auto splitters_for = [&](const RowRange& range) {
    return cuts.splitters_for(is_split_[batch], {rows.first + range.begin, rows.first + range.end});
  };
  for (int piece = 0; piece < rows.pieces; ++piece) {
    exchange_->encode(rows, piece);
    const std::uint64_t number = rows.first_piece + static_cast<std::uint64_t>(piece);
    for (std::size_t g = 0; verify_ && g < came_in_.size(); ++g)
      checksum(runtime_, exchange_->compute(g), exchange_->records(rows, piece, g), came_in_[g].slice(8 * number, 8));
    if (!exchange_->exchange(rows, piece, splitters_for, parts)) throw_samples_misjudged();
    copy_in_next();
  }
}

void RelationExchange::note_sorted(std::size_t batch, std::size_t gpu, Stream stream, const Records& sorted) {
  if (!verify_ || sorted.count == 0) return;
  check_part(runtime_, stream, own_codes(sorted.type.key), sorted,
             notes_[gpu].slice(sizeof(PartNumbers) * batch, sizeof(PartNumbers)));
  note_streams_[gpu] = stream;
  noted_[batch][gpu] = true;
}

void RelationExchange::verify() {
  if (!verify_) return;
  runtime_.set_phase("verify");
  std::vector<std::vector<std::uint64_t>> came_in;
  std::vector<std::vector<PartNumbers>> notes;
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    came_in.emplace_back(came_in_[g].view().bytes / 8);
    notes.emplace_back(arriving_.size());
    reads.push_back({exchange_->compute(g), came_in_[g].view(), came_in[g].data()});
    if (note_streams_[g].id >= 0) reads.push_back({note_streams_[g], notes_[g].view(), notes[g].data()});
  }
  runtime_.read_back(reads);
  for (std::size_t b = 0; b < arriving_.size(); ++b) {
    ResultCheck check(arriving_[b].io->record_type().key);
    for (std::size_t g = 0; g < slots_.size(); ++g) {
      for (int piece = 0; piece < arriving_[b].pieces; ++piece)
        check.came_in(came_in[g][arriving_[b].first_piece + static_cast<std::size_t>(piece)]);
      if (noted_[b][g]) check.came_out(exchange_->compute(g).place, notes[g][b]);
    }
    check.finish();
  }
}

}  // namespace linkwise
