// Gathers strings on several GPUs: first their lengths, whose prefix sums are the offsets of the result, then the
// bytes.
#pragma once

#include <map>
#include <vector>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/transfer/gather_workers.hpp"

namespace linkwise {

class StringGather {
 public:
  explicit StringGather(GatherWorkers& workers) : workers_(workers), runtime_(workers.runtime) {}

  void bring_offsets(std::size_t c);
  void find_lengths(std::size_t c);
  /// Allocates memory for the resulting strings. Blocks until their lengths have been added up.
  /// @throws std::overflow_error if they have more bytes than 32-bit offsets can address.
  void make_room(const std::vector<std::size_t>& strings);
  void bring_bytes(std::size_t c);
  void gather(std::size_t c);

 private:
  [[nodiscard]] std::vector<StringPiece> pieces_of(std::size_t c);
  [[nodiscard]] auto copies_in(const GatherWorker& worker) {
    return [this, &worker](const MemoryView& to, const void* from, std::uint64_t offset, bool pageable) {
      workers_.copy_in(worker, to, from, offset, pageable);
    };
  }

  struct Made {
    std::byte *offsets = nullptr, *values = nullptr;
  };

  GatherWorkers& workers_;
  Runtime& runtime_;
  std::map<std::size_t, Made> made_;  // host memory of the result's columns
};

}  // namespace linkwise
