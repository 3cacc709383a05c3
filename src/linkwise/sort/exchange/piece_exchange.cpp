#include "linkwise/sort/exchange/piece_exchange.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/device/arena.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t max_pieces = 16;  // more would hide no more time, and each costs a round trip to the host

}  // namespace

PieceExchange::PieceExchange(Runtime& runtime, std::span<const int> gpus, std::uint64_t piece_capacity,
                             std::vector<Memory> memory)
    : runtime_(runtime), piece_capacity_(piece_capacity) {
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const Place place = Place::gpu(gpus[g]);
    Worker worker;
    worker.in = runtime.stream(place, "in");
    worker.compute = runtime.stream(place, "compute");
    worker.memory = std::move(memory[g]);
    worker.full.resize(worker.memory.slots.size());
    worker.free.resize(worker.memory.slots.size());
    worker.totals = runtime.allocate(place, 8 * max_destinations, "totals");
    workers_.push_back(std::move(worker));
  }
}

std::uint64_t PieceExchange::slot_bytes(RecordType type, std::uint64_t piece_capacity) {
  return align_up(record_bytes(type, piece_capacity), device_alignment) + piece_capacity * type.key_bytes() / 2;
}

int PieceExchange::pieces_for(std::uint64_t count, std::uint64_t gpus, RecordType type, std::uint64_t piece_bytes) {
  const std::uint64_t share = (count + gpus - 1) / gpus;
  return static_cast<int>(std::clamp<std::uint64_t>(share * type.bytes() / piece_bytes, 1, max_pieces));
}

RowRange PieceExchange::rows_of(const ArrivingRows& rows, int piece, std::size_t gpu, std::size_t gpus) {
  const auto pieces = static_cast<std::uint64_t>(rows.pieces), p = static_cast<std::uint64_t>(piece);
  const std::uint64_t begin = rows.count * p / pieces, length = rows.count * (p + 1) / pieces - begin;
  return {begin + length * gpu / gpus, begin + length * (gpu + 1) / gpus};
}

std::size_t PieceExchange::slot_number(const ArrivingRows& rows, int piece) const {
  return (rows.first_piece + static_cast<std::size_t>(piece)) % workers_.front().memory.slots.size();
}

PieceExchange::Slot PieceExchange::slot_of(const ArrivingRows& rows, int piece, std::size_t gpu) const {
  const RowRange range = rows_of(rows, piece, gpu, workers_.size());
  const RecordType type = rows.io->record_type();
  const MemoryView& memory = workers_[gpu].memory.slots[slot_number(rows, piece)];
  const std::uint64_t native_at = align_up(record_bytes(type, piece_capacity_), device_alignment);
  const std::uint64_t native_bytes = rows.io->is_narrow() ? range.count() * rows.io->native_key_bytes() : 0;
  return {records_in(memory, type, range.count()), memory.slice(native_at, native_bytes)};
}

void PieceExchange::copy_in(const ArrivingRows& rows, int piece) {
  runtime_.set_phase("HtoD");
  const std::size_t number = slot_number(rows, piece);
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = workers_[g];
    const Slot slot = slot_of(rows, piece, g);
    runtime_.wait(worker.in, worker.free[number]);
    rows.io->copy_in(worker.in, rows.first + rows_of(rows, piece, g, workers_.size()).begin, slot.records, slot.native);
    worker.full[number] = runtime_.record(worker.in);
  }
}

void PieceExchange::encode(const ArrivingRows& rows, int piece) {
  runtime_.set_phase("partition");
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const Worker& worker = workers_[g];
    const Slot slot = slot_of(rows, piece, g);
    runtime_.wait(worker.compute, worker.full[slot_number(rows, piece)]);
    const std::uint64_t first = rows.first + rows_of(rows, piece, g, workers_.size()).begin;
    rows.io->encode_rows(worker.compute, first, slot.records, slot.native);
  }
}

bool PieceExchange::exchange(const ArrivingRows& rows, int piece,
                             const std::function<Splitters(const RowRange&)>& splitters_for, FillingParts& parts) {
  std::vector<ExchangeInput> inputs;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    const Worker& worker = workers_[g];
    inputs.push_back({worker.compute, records(rows, piece, g), worker.memory.scratch, worker.totals.view(),
                      splitters_for(rows_of(rows, piece, g, workers_.size()))});
  }
  if (!exchange_records(runtime_, inputs, parts)) return false;
  for (Worker& worker : workers_) worker.free[slot_number(rows, piece)] = runtime_.record(worker.compute);
  return true;
}

bool exchange_records(Runtime& runtime, std::span<const ExchangeInput> inputs, FillingParts& parts) {
  runtime.set_phase("partition");
  const std::size_t num_parts = parts.room.size();
  const std::vector<std::vector<std::uint64_t>> counts = count_parts(runtime, inputs, num_parts);

  runtime.set_phase("exchange");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ExchangeInput& input = inputs[i];
    std::vector<Records> destinations;
    for (std::size_t part = 0; part < num_parts; ++part) {
      const std::uint64_t begin = parts.received[part], length = counts[i][part];
      if (begin + length > parts.room[part].count) return false;
      destinations.push_back(parts.room[part].slice(begin, length));
      parts.received[part] += length;
    }
    partition(runtime, input.stream, input.records, input.splitters, input.scratch, destinations);
  }
  return true;
}

}  // namespace linkwise
