// One side of a join on the GPUs: received in parts, sorted in place, with room in front for borrowed rows.
#pragma once

#include <vector>

#include "linkwise/join/in_core/join_splitters.hpp"
#include "linkwise/sort/exchange/piece_exchange.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

class Relation {
 public:
  /// Allocates on the GPU of each stream. `by_msd`: whether keys suit MSD radix sort. @throws OutOfMemoryError.
  Relation(Runtime& runtime, std::span<const Stream> streams, RecordType type, std::span<const PartRoom> room,
           bool by_msd);

  [[nodiscard]] RecordType type() const { return type_; }
  FillingParts& parts() { return parts_; }
  [[nodiscard]] std::uint64_t received(std::size_t gpu) const { return parts_.received[gpu]; }
  /// What a GPU received, without what it borrowed.
  [[nodiscard]] Records own(std::size_t gpu) const { return parts_.room[gpu].slice(0, received(gpu)); }
  /// All rows that a GPU joins: received and borrowed ones.
  [[nodiscard]] Records all(std::size_t gpu) const;
  void clear();

  /// Sorts the received rows of a GPU in place, by the bits in which their keys can differ. `spare` has room for as
  /// many; scratch: local_sort_scratch_bytes.
  void sort(std::size_t gpu, Stream stream, BitRange bits, const MemoryView& spare, const MemoryView& scratch);
  /// Copies the rows of split keys from their owners (JoinSplitters::borrows) to the room in front of the received
  /// rows. Blocks until the number of these rows is known. @throws OutOfMemoryError if there is no room for them.
  void borrow(const JoinSplitters& cuts, std::span<const Stream> streams, Router& router);

  /// The most rows that a part can have, including borrowed ones.
  static std::uint64_t most_rows(const PartRoom& room);

 private:
  [[nodiscard]] std::vector<std::uint64_t> lengths_of_runs(const JoinSplitters& cuts,
                                                           std::span<const Stream> streams) const;

  Runtime& runtime_;
  RecordType type_;
  bool by_msd_;
  std::vector<Buffer> memory_;
  std::vector<Records> whole_;  // of each GPU, with the room in front
  std::vector<std::uint64_t> front_, borrowed_;
  FillingParts parts_;
};

}  // namespace linkwise
