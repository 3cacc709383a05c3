// Moves host rows to the GPUs that own them: in pieces, each of which is exchanged while later ones still arrive.
//
// A piece is a consecutive range of rows that is divided among the GPUs. It is copied into one of a few slots, which
// are used in turn. When it has arrived, every GPU counts its part by destination. From the counts the host computes
// where in each bucket the records go, and the partition kernel stores them straight into the GPUs that own the
// buckets. Records enter a bucket piece by piece and source by source, which is input order.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "linkwise/sort/exchange/exchange_input.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// Rows that arrive in pieces.
struct ArrivingRows {
  const HostIo* io = nullptr;
  std::uint64_t first = 0;  ///< row number in the columns
  std::uint64_t count = 0;
  int pieces = 1;
  std::size_t first_piece = 0;  ///< how many pieces arrive before these rows: determines the slots
};

/// Positions [begin, end) among arriving rows.
struct RowRange {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
};

/// Parts that are being filled; part p has room for `room[p].count` records.
struct FillingParts {
  std::vector<Records> room;
  std::vector<std::uint64_t> received;  ///< records so far, for each part
};

/// Counts the records by destination and appends them to the parts. Blocks until the counts are known. False if a
/// part would overflow.
[[nodiscard]] bool exchange_records(Runtime& runtime, std::span<const ExchangeInput> inputs, FillingParts& parts);

class PieceExchange {
 public:
  static constexpr int ring_slots = 3;  ///< one piece arrives, one is partitioned, one is spare

  /// Memory that one GPU provides: slots for its part of a piece, and scratch for partitioning.
  struct Memory {
    std::vector<MemoryView> slots;
    MemoryView scratch;
  };

  /// `piece_capacity`: most rows of a piece on one GPU. All GPUs provide equally many slots, of `slot_bytes` each.
  PieceExchange(Runtime& runtime, std::span<const int> gpus, std::uint64_t piece_capacity, std::vector<Memory> memory);

  /// Bytes of a slot: the records and, behind them, the native bytes of narrow keys.
  static std::uint64_t slot_bytes(RecordType type, std::uint64_t piece_capacity);
  /// The number of pieces that `count` rows should be cut into on so many GPUs.
  static int pieces_for(std::uint64_t count, std::uint64_t gpus, RecordType type, std::uint64_t piece_bytes);

  /// Enqueues the copies of a piece, which begin as soon as its slot is free.
  void copy_in(const ArrivingRows& rows, int piece);
  /// Encodes the piece on the GPUs' `compute` streams, after it has arrived.
  void encode(const ArrivingRows& rows, int piece);
  /// A GPU's part of the encoded piece.
  [[nodiscard]] Records records(const ArrivingRows& rows, int piece, std::size_t gpu) const {
    return slot_of(rows, piece, gpu).records;
  }
  [[nodiscard]] static RowRange rows_of(const ArrivingRows& rows, int piece, std::size_t gpu, std::size_t gpus);

  /// Exchanges a piece; `splitters_for` returns the splitters for a range of rows. While the host waits for the
  /// counts, the next pieces are being copied. False if a part would overflow.
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
    std::vector<Event> full, free;  // for each slot
    Buffer totals;                  // counts of a piece's records, by part
  };

  [[nodiscard]] std::size_t slot_number(const ArrivingRows& rows, int piece) const;
  [[nodiscard]] Slot slot_of(const ArrivingRows& rows, int piece, std::size_t gpu) const;

  Runtime& runtime_;
  std::uint64_t piece_capacity_;
  std::vector<Worker> workers_;
};

}  // namespace linkwise
