// Radix sort of host data in which nothing waits for everything: pieces are partitioned and exchanged while later
// ones still arrive, and sorted buckets leave while later ones are still being sorted.
//
//   1. Splitters come first, from samples that the GPUs read out of host memory: g·b parts of equal size, b buckets
//      for each of the g GPUs (splitters.hpp).
//   2. The input arrives in pieces, each a consecutive range that the GPUs share. As soon as a piece is there, every
//      GPU counts its part by destination; from the counts the host says where in each bucket the records go, and the
//      partition kernel stores them straight into the GPUs that own the buckets.
//   3. When the last piece is exchanged, each GPU sorts its buckets one after the other, and copies each out while it
//      sorts the next.
//   4. Of several runs, the next begins to arrive while the one before leaves: join25 §3.1.3 flips its buffers alike.
//
// So what is added to the wire time is the exchange of one piece and the sort of one bucket. Records enter a bucket
// piece by piece and source by source, which is input order: the sort is stable. join25 §3.1.2 overlaps the copies out
// with sorting buckets; the rest of the overlap is ours.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/splitters.hpp"

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

  /// Sorts each run into its output, as native keys or, if there are several, as codes. Blocks until they are there.
  /// Returns how many are: fewer than all, with garbage in the next output, if the samples misjudged a bucket by more
  /// than the plan's slack; then sort the rest in another way.
  [[nodiscard]] std::size_t sort(KeyType type, std::span<const SortRun> runs, bool as_codes,
                                 const SortOptions& options);

  /// Of all runs of the last call that are there, if they were verified.
  [[nodiscard]] std::uint64_t result_checksum() const { return checksum_; }

  /// Bytes of memory that each GPU needs for that capacity.
  static std::uint64_t bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type,
                                     std::uint64_t capacity);

 private:
  static constexpr int ring_slots = 3;  // one piece arrives, one is partitioned, one is spare

  /// How the capacity is cut up. A smaller run is cut in the same way, into smaller pieces.
  struct Layout {
    int gpus = 1;
    int buckets = 1;  ///< of each GPU
    int pieces = 1;
    std::uint64_t piece_capacity = 0;   ///< records of a piece on one GPU
    std::uint64_t bucket_capacity = 0;  ///< records, with slack
    std::uint64_t shortest_sorted = 0;  ///< records that there is scratch for, however short the buckets are

    [[nodiscard]] int parts() const { return gpus * buckets; }
    /// Slots for pieces; none where one piece is all.
    [[nodiscard]] std::uint64_t ring() const { return static_cast<std::uint64_t>(pieces > 1 ? ring_slots : 0); }
  };
  /// A run that is being sorted.
  struct Run {
    std::uint64_t first = 0, count = 0;
    std::size_t number = 0;  ///< among the runs of the call
    std::vector<Cut> cuts;
    std::vector<std::uint64_t> received;  ///< records in each part so far
    bool verify = false;
  };
  struct BucketSorts {
    std::vector<BitRange> bits;
    bool end_in_spare = false;
  };
  struct Rows {
    std::uint64_t begin, end;
    [[nodiscard]] std::uint64_t count() const { return end - begin; }
  };
  /// Where a piece lies on a GPU: as records, and behind them the native bytes of narrow keys.
  struct Slot {
    Records records;
    MemoryView native;
  };
  struct Worker;

  static Layout layout_of(const SortPlan& plan, RecordType type, std::uint64_t records);
  static std::uint64_t scratch_bytes(const Kernels& kernels, const Layout& layout, RecordType type);
  static std::uint64_t slot_bytes(const Layout& layout, RecordType type);
  static std::uint64_t secondary_bytes(const Layout& layout, RecordType type);
  static Splitters splitters_for(const Run& run, const Rows& rows);
  [[nodiscard]] Rows rows_of(const Run& run, int piece, std::size_t gpu) const;
  [[nodiscard]] std::size_t slot_number(const Run& run, int piece) const;
  [[nodiscard]] Slot slot_of(const Run& run, int piece, std::size_t gpu) const;
  [[nodiscard]] Records bucket(std::size_t part, bool is_spare) const;
  [[nodiscard]] BucketSorts sorts_of(const Run& run, std::size_t gpu, bool in_one_buffer) const;

  std::vector<Cut> sample_cuts(KeyType type, bool descending, const Run& run);
  void copy_in(const Run& run, int piece);
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
  std::uint64_t checksum_ = 0;
};

}  // namespace linkwise
