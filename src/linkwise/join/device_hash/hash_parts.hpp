// Both sides of a hash join, brought into parts on the GPUs: rows of one hash are in one part, and a part of the build
// side fits a table in the memory of a thread block.
//
// Over several GPUs the first pass makes buckets, of which each GPU has its share: they go there by the copy engines,
// batch by batch while the next batch is divided, and the second pass puts the pieces of each together while it divides
// them. Or a short build side goes everywhere, and the rows that look it up stay where they are.
#pragma once

#include <functional>
#include <vector>

#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// How the sides are divided.
struct HashLayout {
  int first_bits = 0, second_bits = 0;  ///< of the passes; 0: none
  std::uint32_t table_rows = 0;
  std::uint64_t batch_rows = 0;  ///< at least, that are divided before they begin to go elsewhere
  bool replicates = false;       ///< the build side
};
/// What decides that.
struct HashedSides {
  RecordType build;  ///< keys, and the values that are kept with them, of the build side
  std::uint64_t build_rows = 0, probe_rows = 0;
  bool build_emits = false;      ///< rows of the build side come into the result by themselves: it is not replicated
  std::uint32_t table_rows = 0;  ///< at most; 0: as many as suit GPUs with so much memory for a thread block
};
/// @param block_bytes  memory that a thread block can have, at least least_hash_block_bytes.
HashLayout layout_hash_join(const HashedSides& sides, std::size_t gpus, std::uint64_t block_bytes);

class HashParts {
 public:
  HashParts(Runtime& runtime, std::span<const Stream> streams, Router& router, const HashLayout& layout, bool verify);

  /// A side as it came: with its values, the numbers of its rows, or keys alone.
  struct Input {
    const DeviceSide* side = nullptr;
    ValueWidth value = ValueWidth::none;
    IntegerType value_type;
  };
  /// Enqueues the first pass over the build side; of a short one, the copies before it, and meanwhile the first pass
  /// over the probing side.
  void start_dividing(const Input& build, const Input& probe);
  /// Enqueues the rest; of several GPUs, blocks until they have counted their buckets. `is_worth_it` is asked once,
  /// while the GPUs are busy with what was enqueued. Returns whether it is, and the hashes spread the rows over the
  /// GPUs well enough; otherwise nothing can be used.
  bool bring_together(const std::function<bool()>& is_worth_it);

  /// On each GPU.
  struct OnGpu {
    HashSide build, probe;
    std::uint32_t parts = 1, first_part = 0;  ///< the parts' numbers among those of all GPUs …
  };
  [[nodiscard]] const std::vector<OnGpu>& on_gpus() const { return on_gpus_; }
  [[nodiscard]] int part_bits() const { return layout_.first_bits + layout_.second_bits; }  ///< … are so many bits
  /// Whether rows were moved, so that it is worth knowing what came of them.
  [[nodiscard]] bool has_moved() const { return layout_.first_bits > 0; }
  /// Σ hash_of_moved of rows of both sides.
  struct Checksums {
    std::uint64_t probe = 0, build = 0;
    friend bool operator==(Checksums, Checksums) = default;
    Checksums& operator+=(Checksums other);
  };
  /// Of what came in to be divided: to be read back, and then what was. And whether all copies of the build side are
  /// what was copied.
  void read_came_in(std::vector<ReadBack>& reads);
  [[nodiscard]] Checksums came_in() const;
  [[nodiscard]] bool copies_agree() const;

 private:
  struct Copied {  // Σ record_hash of a GPU's part of the build side, and of its copy of the whole
    std::uint64_t own = 0, all = 0;
  };
  struct Batch {  // rows of a side on a GPU that the first pass divides at once
    std::uint64_t first = 0, rows = 0;
    MemoryView begin;                   // of the buckets, from the first row on …
    std::vector<std::uint64_t> begins;  // … and on the host
    MemoryView checksum;
    std::uint64_t came_in = 0;
    Event divided;
  };
  struct Piece {  // a side on a GPU, on its way
    HashSide rows;
    std::uint64_t count = 0;
    std::vector<Batch> batches;
    Buffer moved_memory;
    Records moved;  // by the first pass, and from `filled` on what other GPUs sent
    std::uint64_t filled = 0;
    std::vector<std::uint64_t> begins, ends;  // of the buckets' pieces in it …
    MemoryView run_begin, run_end;            // … and the same on the GPU
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
  [[nodiscard]] RecordType copied_type() const;  // of a build side that goes to every GPU
  void replicate_build();
  void await_copies();
  void prepare_first_pass(Side& side);
  /// Enqueues the first pass over so much of a side, from 0 to 1.
  void divide_to(Side& side, double share);
  void divide_batch(Side& side, std::size_t gpu, std::uint64_t number);
  bool exchange(Side& side, const std::function<bool()>& is_worth_it);
  bool receive(Side& side, std::size_t gpu, std::size_t batch);
  void second_pass(Side& side, std::size_t gpu);
  [[nodiscard]] bool exchanges() const { return streams_.size() > 1 && !layout_.replicates && layout_.first_bits > 0; }
  [[nodiscard]] std::uint64_t first_bucket(std::size_t gpu) const;
  [[nodiscard]] Stream receiver(std::size_t gpu) { return runtime_.stream(streams_[gpu].place, "exchange"); }
  MemoryView allocate(std::size_t gpu, std::uint64_t bytes);
  /// Where the buckets' pieces lie, which its GPU then waits for.
  void send_runs(Piece& piece, std::size_t gpu);
  /// Where the parts begin to which it moves the rows.
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
