// Partitions both sides of a hash join on the GPUs: rows with equal hashes are in one part, and an average part of
// the build side fits a hash table in shared memory.
//
// With several GPUs, the first pass makes buckets, of which each GPU owns a share. Copy engines send the buckets to
// their owners, batch by batch while the next batch is partitioned; the second pass gathers the pieces of each bucket
// while it partitions them further. A short build side is replicated to every GPU instead, and the probe side stays
// in place.
#pragma once

#include <functional>
#include <vector>

#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// How the sides are partitioned.
struct HashLayout {
  int first_bits = 0, second_bits = 0;  ///< radix bits of the two passes; 0: no pass
  std::uint32_t table_rows = 0;
  std::uint64_t batch_rows = 0;  ///< at least; a batch is sent as soon as it is partitioned
  bool replicates = false;       ///< copies the build side to every GPU instead
};
/// What the layout depends on.
struct HashedSides {
  RecordType build;  ///< of the build side: its keys and the values carried with them
  std::uint64_t build_rows = 0, probe_rows = 0;
  bool build_emits = false;      ///< build rows are emitted by themselves, so they are not replicated
  std::uint32_t table_rows = 0;  ///< at most; 0: chosen by the shared memory of a thread block
};
/// Rows with which two tables of an inner join fit on a Hopper SM (227 KiB of shared memory) while pairs are counted.
std::uint32_t usual_table_rows(KeyWidth width);
/// @param block_bytes  shared memory that a thread block can use; at least least_hash_block_bytes.
HashLayout layout_hash_join(const HashedSides& sides, std::size_t gpus, std::uint64_t block_bytes);

class HashParts {
 public:
  HashParts(Runtime& runtime, std::span<const Stream> streams, Router& router, const HashLayout& layout, bool verify);

  /// An input side: keys with values, keys with row numbers, or keys alone.
  struct Input {
    const DeviceSide* side = nullptr;
    ValueWidth value = ValueWidth::none;
    IntegerType value_type;
  };
  /// Enqueues the first pass over the build side. If that side is replicated, first enqueues its copies and, to
  /// overlap with them, the first pass over the probe side.
  void start_dividing(const Input& build, const Input& probe);
  /// Enqueues the rest; if GPUs exchange buckets, blocks until they have counted them. Calls `is_worth_it` once,
  /// while the GPUs are busy with enqueued work. Returns false if that does, or if the hashes spread the rows too
  /// unevenly over the GPUs; the parts are then unusable.
  bool bring_together(const std::function<bool()>& is_worth_it);

  /// The parts on one GPU.
  struct OnGpu {
    HashSide build, probe;
    std::uint32_t parts = 1, first_part = 0;  ///< number of parts, and the global number of the first one
  };
  [[nodiscard]] const std::vector<OnGpu>& on_gpus() const { return on_gpus_; }
  [[nodiscard]] int part_bits() const { return layout_.first_bits + layout_.second_bits; }  ///< of a global number
  /// Whether a pass has moved rows, so that checksums are worth comparing.
  [[nodiscard]] bool has_moved() const { return layout_.first_bits > 0; }
  /// Σ record_hash of rows of both sides.
  struct Checksums {
    std::uint64_t probe = 0, build = 0;
    friend bool operator==(Checksums, Checksums) = default;
    Checksums& operator+=(Checksums other);
  };
  /// Checksums of the input: `read_came_in` adds the reads that fetch them. After these, `came_in` returns the sums,
  /// and `copies_agree` whether every copy of the build side equals the original.
  void read_came_in(std::vector<ReadBack>& reads);
  [[nodiscard]] Checksums came_in() const;
  [[nodiscard]] bool copies_agree() const;

 private:
  struct Copied {  // Σ record_hash of a GPU's part of the build side, and of its copy of the whole
    std::uint64_t own = 0, all = 0;
  };
  struct Batch {  // rows of a side on a GPU that the first pass partitions at once
    std::uint64_t first = 0, rows = 0;
    MemoryView begin;                   // offsets of the buckets, from the batch's first row on
    std::vector<std::uint64_t> begins;  // the same on the host
    MemoryView checksum;
    std::uint64_t came_in = 0;
    Event divided;
  };
  struct Piece {  // a side's rows on one GPU, between the passes
    HashSide rows;
    std::uint64_t count = 0;
    std::vector<Batch> batches;
    Buffer moved_memory;
    Records moved;  // output of the first pass; records from other GPUs are appended at `filled`
    std::uint64_t filled = 0;
    std::vector<std::uint64_t> begins, ends;  // of the pieces of buckets in `moved`
    MemoryView run_begin, run_end;            // the same on the GPU
    std::uint32_t buckets = 1;
    MemoryView copied;  // Copied
    Copied checksums;
  };
  struct Side {
    Input input;
    std::vector<Piece> pieces;  // of each GPU
    std::uint64_t batches = 1, divided = 0;
  };

  void start(Side& side);
  [[nodiscard]] RecordType copied_type() const;  // of a replicated build side
  void replicate_build();
  void await_copies();
  void prepare_first_pass(Side& side);
  /// Enqueues the first pass up to this fraction of a side, from 0 to 1.
  void divide_to(Side& side, double share);
  void divide_batch(Side& side, std::size_t gpu, std::uint64_t number);
  bool exchange(Side& side, const std::function<bool()>& is_worth_it);
  bool receive(Side& side, std::size_t gpu, std::size_t batch);
  void second_pass(Side& side, std::size_t gpu);
  [[nodiscard]] bool exchanges() const { return streams_.size() > 1 && !layout_.replicates && layout_.first_bits > 0; }
  [[nodiscard]] std::uint64_t first_bucket(std::size_t gpu) const;
  [[nodiscard]] Stream receiver(std::size_t gpu) { return runtime_.stream(streams_[gpu].place, "exchange"); }
  MemoryView allocate(std::size_t gpu, std::uint64_t bytes);
  /// Copies the offsets of the buckets' pieces to the GPU, whose stream waits for them.
  void send_runs(Piece& piece, std::size_t gpu);
  /// Enqueues a pass and returns where its parts begin in `to`.
  MemoryView run_pass(std::size_t gpu, const HashPass& pass, const Records& to, const MemoryView& checksum);

  Runtime& runtime_;
  std::span<const Stream> streams_;
  Router& router_;
  HashLayout layout_;
  bool verify_;
  Side build_, probe_;
  std::vector<OnGpu> on_gpus_;
  std::vector<Buffer> memory_;
};

}  // namespace linkwise
