// Copies between pageable host memory and a device, at the speed of the link.
//
// A GPU's copy engine needs pinned host memory. So each stream that copies has a ring of pinned slots, small enough
// to stay in the caches, and a few threads, which move pieces between the caller's memory and the ring while the copy
// engine moves others between the ring and the device. Host memory is read or written once, not three times. Flags in
// host memory, which the stream itself waits for and sets, say who owns each slot; the thread that submits to the
// stream never blocks.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "linkwise/device/cuda/work_queue.hpp"
#include "linkwise/device/runtime.hpp"

namespace linkwise {

class StagingRing {
 public:
  /// Bytes of pinned memory that a ring needs.
  static std::uint64_t bytes();

  StagingRing(std::byte* memory, int threads);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// Enqueues the copy, one end of which is pageable host memory. One thread at a time calls this, always with the same
  /// stream.
  void copy(cudaStream_t stream, const MemoryView& to, const MemoryView& from);

 private:
  /// The flags of a slot, each on a cache line of its own: the number of the last piece that the host has finished with
  /// (filled the slot, or emptied it), and the same for the device.
  struct Slot {
    alignas(64) std::uint32_t host;
    alignas(64) std::uint32_t device;
  };
  struct Piece {
    std::uint32_t number;
    std::uint32_t copy;  ///< the copy's number; an inward copy begins when the stream reaches it
    bool is_inward;
    std::byte* memory;  ///< the caller's
    std::uint64_t bytes;
  };

  [[nodiscard]] std::byte* data_of(std::uint32_t piece) const;
  void move(const Piece& piece);
  bool wait_for(const std::uint32_t& flag, std::uint32_t value) const;

  std::byte* data_;
  Slot* slots_;
  std::uint32_t* reached_;  ///< the number of the copy that the stream has reached
  std::uint32_t next_piece_;
  std::uint32_t copies_ = 0;

  WorkQueue<Piece> pieces_{std::chrono::milliseconds(1)};
  std::atomic<bool> ending_ = false;
  std::vector<std::jthread> threads_;  // last: they use the others
};

}  // namespace linkwise
