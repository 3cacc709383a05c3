// Pipelined radix sort of host data: pieces are partitioned and exchanged while later ones still arrive, and sorted
// buckets are copied out while later ones are still being sorted.
//
//   1. Splitters come first, from samples that the GPUs read out of host memory: g·b parts of equal size, b buckets
//      for each of the g GPUs (splitters.hpp).
//   2. The input arrives in pieces, each of which is stored straight into the GPUs that own the buckets as soon as it
//      is there (piece_exchange.hpp).
//   3. When the last piece is exchanged, each GPU sorts its buckets one after the other, and copies each out while it
//      sorts the next.
//   4. With several runs, the next one begins to arrive while the previous one is copied out; join25 §3.1.3 flips its
//      buffers in the same way.
//
// So only the exchange of one piece and the sort of one bucket are added to the transfer time. Records enter a bucket
// in input order: the sort is stable. join25 §3.1.2 overlaps copying out with sorting buckets; the rest of the
// overlap is ours.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "linkwise/sort/exchange/piece_exchange.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Rows [first, first + count) of the input, which go to rows [0, count) of `output`.
struct SortRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  HostOutputs output;
};

class StreamedRadixSort {
 public:
  /// Allocates for sorts of up to `capacity` records. @throws OutOfMemoryError.
  StreamedRadixSort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t capacity);
  ~StreamedRadixSort();
  StreamedRadixSort(const StreamedRadixSort&) = delete;
  StreamedRadixSort& operator=(const StreamedRadixSort&) = delete;

  /// Sorts each run into its output, as native keys or, with `as_codes`, as codes. Blocks until the outputs are
  /// complete. Returns how many are: fewer than all if the samples misjudged a bucket by more than the plan's slack.
  /// The rest, whose outputs are undefined, must then be sorted in another way.
  [[nodiscard]] std::size_t sort(KeyType type, std::span<const SortRun> runs, bool as_codes,
                                 const SortOptions& options);

  /// The checksum of all complete runs of the last call, if they were verified.
  [[nodiscard]] std::uint64_t result_checksum() const { return checksum_; }

  /// Bytes of memory that each GPU needs for that capacity.
  static std::uint64_t bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type,
                                     std::uint64_t capacity);

 private:
  /// How the capacity is divided. A smaller run is divided in the same way, into smaller pieces.
  struct Layout {
    int gpus = 1;
    int buckets = 1;  ///< per GPU
    int pieces = 1;
    std::uint64_t piece_capacity = 0;   ///< most records of a piece on one GPU
    std::uint64_t bucket_capacity = 0;  ///< records, with slack
    std::uint64_t shortest_sorted = 0;  ///< scratch suffices for this many records, however short the buckets are

    [[nodiscard]] int parts() const { return gpus * buckets; }
    /// Slots for pieces; 0 if there is only one piece.
    [[nodiscard]] std::uint64_t ring() const {
      return static_cast<std::uint64_t>(pieces > 1 ? PieceExchange::ring_slots : 0);
    }
  };
  /// A run that is being sorted.
  struct Run {
    ArrivingRows rows;
    std::size_t number = 0;  ///< among the runs of the call
    std::vector<Cut> cuts;
    bool by_msd = false;                  ///< how buckets are sorted
    std::vector<std::uint64_t> received;  ///< records in each part
    bool verify = false;
  };
  /// The arguments of one call of `sort`, and what follows from them.
  struct Call {
    KeyType type;
    std::span<const SortRun> runs;
    const SortOptions& options;
    bool overlaps = false;   ///< there is a ring; without it, a run arrives in a buffer that the run before needs
    bool cuts_late = false;  ///< cuts, if any, are chosen when all of a run has arrived
  };
  struct Worker;

  static Layout layout_of(const SortPlan& plan, RecordType type, std::uint64_t records);
  static std::uint64_t scratch_bytes(const Kernels& kernels, const Layout& layout, RecordType type);
  static std::uint64_t secondary_bytes(const Layout& layout, RecordType type);
  [[nodiscard]] Records bucket(std::size_t part, bool is_spare) const;
  [[nodiscard]] BitRange bits_of(const Run& run, std::size_t part) const;
  [[nodiscard]] LocalSort::Into where_all_end(const Run& run, std::size_t gpu) const;

  [[nodiscard]] Run begin(const Call& call, std::size_t r) const;
  void copy_in_piece(const Call& call, std::size_t number);
  bool receive(const Call& call, Run& run, const Run* leaving, Run* next);
  void look_at_samples(const Call& call, Run& run);
  void arrive(const Run& run, int piece);
  std::vector<Cut> cuts_of_everything(const Run& run);
  bool exchange(Run& run, int piece);
  void sort_and_copy_out(const Run& run, const HostOutputs& output, bool as_codes, bool next_overlaps);
  void verify(const Run& run);

  Runtime& runtime_;
  const SortPlan& plan_;
  const HostIo& io_;
  Layout layout_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<PieceExchange> arrival_;
  std::uint64_t checksum_ = 0;
};

}  // namespace linkwise
