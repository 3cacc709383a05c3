// Strings' rows on several GPUs: lengths first, which say where each string begins, and then the bytes.
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
  /// How many bytes the strings have is known when their lengths have been added up: the host waits for that.
  /// @throws std::overflow_error if they are more than offsets of 32 bits count.
  void make_room(const std::vector<std::size_t>& strings);
  void bring_bytes(std::size_t c);
  void gather(std::size_t c);

 private:
  [[nodiscard]] std::vector<StringPiece> pieces_of(std::size_t c);

  struct Made {
    std::byte *offsets = nullptr, *values = nullptr;
  };

  GatherWorkers& workers_;
  Runtime& runtime_;
  std::map<std::size_t, Made> made_;  // host memory of the result's columns
};

}  // namespace linkwise
