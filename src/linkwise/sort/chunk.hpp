// A chunk: the records being sorted that one GPU holds, double-buffered (join25 §3.1).
#pragma once

#include <utility>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Two alternating buffers: an operation reads the current records and writes the other ones, then flips. A flip may
/// change `count`.
class Chunk {
 public:
  /// Allocates for up to `capacity` records, and scratch for the plan's primitives. @throws OutOfMemoryError.
  Chunk(Runtime& runtime, const SortPlan& plan, int gpu, RecordType type, std::uint64_t capacity);

  [[nodiscard]] Place place() const { return Place::gpu(gpu_); }
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] RecordType type() const { return type_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Records records() const { return records_in(buffers_[current_].view(), type_, count_); }
  /// The other buffer, laid out for `count` records. @throws OutOfMemoryError if they exceed the capacity.
  [[nodiscard]] Records other(std::uint64_t count) const;
  [[nodiscard]] MemoryView scratch() const { return scratch_.view(); }
  /// Memory for the counters of kernels: 64 of 64 bits each.
  [[nodiscard]] MemoryView counters() const { return counters_.view(); }

  /// Hands over the buffer that holds the records and retires the rest; the chunk must not be used afterwards.
  Buffer take(Runtime& runtime);

  /// Records [first, first + count), which are sorted once `done` has happened.
  struct Finished {
    std::uint64_t first = 0, count = 0;
    Event done;
  };
  /// All records in parts, if the sort reports when each part is done; otherwise empty.
  [[nodiscard]] const std::vector<Finished>& finished() const { return finished_; }
  void set_finished(std::vector<Finished> finished) { finished_ = std::move(finished); }

  void set_count(std::uint64_t count) {
    count_ = count;
    finished_.clear();
  }
  /// Makes the other buffer the current one, with `count` records.
  void flip(std::uint64_t count) {
    current_ = 1 - current_;
    set_count(count);
  }

 private:
  int gpu_;
  RecordType type_;
  std::uint64_t capacity_;
  std::uint64_t count_ = 0;
  int current_ = 0;
  Stream stream_;
  Buffer buffers_[2];
  Buffer scratch_;
  Buffer counters_;
  std::vector<Finished> finished_;
};

std::vector<Stream> streams_of(const std::vector<Chunk>& chunks);
std::vector<Records> records_of(const std::vector<Chunk>& chunks);

/// Whether to sort these chunks, or as many parts of their records, by MSD radix sort. May block.
bool chunks_suit_msd_sort(Runtime& runtime, const std::vector<Chunk>& chunks);
/// Sorts the chunk's records by the bits, on its own stream.
void sort_locally(Runtime& runtime, Chunk& chunk, BitRange bits, bool by_msd);

/// Bytes of GPU memory for a chunk, and for choosing the cuts.
std::uint64_t chunk_bytes(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t capacity);
/// The records that a chunk must have room for, when each of the plan's GPUs takes an equal share.
std::uint64_t chunk_capacity(const SortPlan& plan, std::uint64_t records);

}  // namespace linkwise
