// Host rows on their way to the GPUs that own them: in pieces, each exchanged while later ones still arrive.
//
// A piece is a consecutive range of rows that the GPUs share. It is copied into a slot, of which there are a few that
// take turns; when it is there, every GPU counts its part by destination; from the counts the host says where in each
// bucket the records go, and the partition kernel stores them straight into the GPUs that own the buckets. Records
// enter a bucket piece by piece and source by source, which is input order.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// Rows that arrive in pieces.
struct ArrivingRows {
  const HostIo* io = nullptr;
  std::uint64_t first = 0;  ///< of the columns' rows
  std::uint64_t count = 0;
  int pieces = 1;
  std::size_t first_piece = 0;  ///< how many pieces arrive before these rows; slots are taken in turn
};

/// [begin, end) of them.
struct RowRange {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
};

/// Parts that are filled, each with room for `room.count` records.
struct FillingParts {
  std::vector<Records> room;
  std::vector<std::uint64_t> received;  ///< so far
};

/// What one GPU brings to an exchange.
struct ExchangeInput {
  Stream stream;
  Records records;
  Splitters splitters;
  MemoryView scratch;  ///< what partitioning them takes
  MemoryView totals;   ///< 64 bits for each part
};
/// Counts the records by destination, and stores them into the parts, behind what these have received. Blocks until the
/// counts are there. False if a part had no room for what came.
[[nodiscard]] bool exchange_records(Runtime& runtime, std::span<const ExchangeInput> inputs, FillingParts& parts);

class PieceExchange {
 public:
  static constexpr int ring_slots = 3;  ///< one piece arrives, one is partitioned, one is spare

  /// What one GPU lends: slots for its part of a piece, and what partitioning takes.
  struct Memory {
    std::vector<MemoryView> slots;
    MemoryView scratch;
  };

  /// `piece_capacity`: rows of a piece on one GPU. Every GPU lends as many slots, of `slot_bytes` each.
  PieceExchange(Runtime& runtime, std::span<const int> gpus, std::uint64_t piece_capacity, std::vector<Memory> memory);

  /// Bytes of a slot: the records and, behind them, the native bytes of narrow keys.
  static std::uint64_t slot_bytes(RecordType type, std::uint64_t piece_capacity);
  /// The most pieces that `count` rows are worth on so many GPUs.
  static int pieces_for(std::uint64_t count, std::uint64_t gpus, RecordType type, std::uint64_t piece_bytes);

  /// Begins to copy a piece in, as soon as its slot is free.
  void copy_in(const ArrivingRows& rows, int piece);
  /// Waits for it and makes it codes, on the GPUs' `compute` streams.
  void encode(const ArrivingRows& rows, int piece);
  /// What a GPU then has of it.
  [[nodiscard]] Records records(const ArrivingRows& rows, int piece, std::size_t gpu) const {
    return slot_of(rows, piece, gpu).records;
  }
  [[nodiscard]] static RowRange rows_of(const ArrivingRows& rows, int piece, std::size_t gpu, std::size_t gpus);

  /// Exchanges a piece; `splitters_for` says how a range of rows is cut. While the host waits for the counts, the
  /// copies of the next pieces are on their way. False if a part had no room for what came.
  [[nodiscard]] bool exchange(const ArrivingRows& rows, int piece,
                              const std::function<Splitters(const RowRange&)>& splitters_for, FillingParts& parts);

  [[nodiscard]] Stream compute(std::size_t gpu) const { return workers_[gpu].compute; }

 private:
  struct Slot {
    Records records;
    MemoryView native;
  };
  struct Worker {
    Stream in, compute;
    Memory memory;
    std::vector<Event> full, free;  // of each slot
    Buffer totals;                  // of a piece, by part
  };

  [[nodiscard]] std::size_t slot_number(const ArrivingRows& rows, int piece) const;
  [[nodiscard]] Slot slot_of(const ArrivingRows& rows, int piece, std::size_t gpu) const;

  Runtime& runtime_;
  std::uint64_t piece_capacity_;
  std::vector<Worker> workers_;
};

}  // namespace linkwise
