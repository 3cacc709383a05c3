// Relations on their way to the GPUs: piece after piece of one and then of the next, each stored into the parts that
// the common splitters say; and the checks that what is joined is what came.
#pragma once

#include <memory>
#include <vector>

#include "linkwise/join/in_core/join_splitters.hpp"
#include "linkwise/join/in_core/relation.hpp"
#include "linkwise/sort/exchange/piece_exchange.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Rows of a relation that arrive together.
struct Batch {
  const HostIo* io = nullptr;
  bool is_split = false;  ///< of the relation that JoinSplitters splits
  std::uint64_t first = 0, count = 0;
};

class RelationExchange {
 public:
  /// Lends `scratch`, one for each GPU, to the partition.
  RelationExchange(Runtime& runtime, const SortPlan& plan, std::span<const Batch> batches,
                   std::vector<MemoryView> scratch, bool verify);

  /// Begins with the first pieces.
  void start();
  /// Receives a batch, which comes in its turn. Afterwards the `compute` streams have stored everything.
  /// @throws OutOfMemoryError if a part had no room.
  void receive(std::size_t batch, const JoinSplitters& cuts, FillingParts& parts);
  /// Notes what a GPU has sorted of the batch, by the stream that sorted it.
  void note_sorted(std::size_t batch, std::size_t gpu, Stream stream, const Records& sorted);
  /// Reads the notes back and judges them. @throws CorruptDataError.
  void verify();

  /// Bytes that bringing so many rows in takes on a GPU.
  static std::uint64_t bytes_per_gpu(const SortPlan& plan, RecordType type, std::uint64_t count);
  /// Rows of the longest piece of so many, on one GPU.
  static std::uint64_t piece_rows(const SortPlan& plan, RecordType type, std::uint64_t count);

 private:
  void copy_in_next();

  Runtime& runtime_;
  bool verify_;
  std::vector<ArrivingRows> arriving_;  // of each batch
  std::vector<bool> is_split_;
  std::size_t next_batch_ = 0;  // whose next piece is to be copied in
  int next_piece_ = 0;
  std::vector<Buffer> slots_, came_in_, notes_;  // of each GPU
  std::vector<Stream> note_streams_;
  std::vector<std::vector<bool>> noted_;  // [batch][GPU]
  std::unique_ptr<PieceExchange> exchange_;
};

}  // namespace linkwise
