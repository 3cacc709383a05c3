// Brings relations to the GPUs, piece by piece and one relation after the other, and stores each row into its part by
// the common splitters; and checks that the rows that are joined are the rows that came in.
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
  /// `scratch`: memory for the partition kernels, one view for each GPU.
  RelationExchange(Runtime& runtime, const SortPlan& plan, std::span<const Batch> batches,
                   std::vector<MemoryView> scratch, bool verify);

  /// Starts copying the first pieces in.
  void start();
  /// Receives a batch; to be called in the order of the batches. Work on the `compute` streams stores the rows.
  /// @throws OutOfMemoryError if a part had no room.
  void receive(std::size_t batch, const JoinSplitters& cuts, FillingParts& parts);
  /// Enqueues the check of a GPU's sorted rows of the batch, on the stream that sorted them.
  void note_sorted(std::size_t batch, std::size_t gpu, Stream stream, const Records& sorted);
  /// Reads the results of these checks back and evaluates them. @throws CorruptDataError.
  void verify();

  /// Bytes that a GPU needs to bring in `count` rows.
  static std::uint64_t bytes_per_gpu(const SortPlan& plan, RecordType type, std::uint64_t count);
  /// Rows of the longest piece on one GPU when `count` rows are brought in.
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
