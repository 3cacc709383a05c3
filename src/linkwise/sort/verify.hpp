// Checks that a sort returned its input in order: a multiset checksum before and after, the order within
// each chunk, and the order across chunks. Everything is computed on the GPUs; it does not cover the way
// between host memory and the GPUs.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"

namespace linkwise {

/// Usage: `before` when the input is encoded, then sort, then `check`.
class SortVerifier {
 public:
  SortVerifier(Runtime& runtime, std::vector<Chunk>& chunks);
  void before();
  /// Reads the results back. @throws CorruptDataError saying what is wrong and on which GPU.
  void check();

 private:
  [[nodiscard]] MemoryView number(std::size_t chunk, int which) const;

  Runtime& runtime_;
  std::vector<Chunk>& chunks_;
  std::vector<Buffer> numbers_;
};

}  // namespace linkwise
