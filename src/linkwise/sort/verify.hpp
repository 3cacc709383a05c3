// Checks that a sort returned its input in order: a multiset checksum before and after, the order within
// each chunk, and the order across chunks. Everything is computed on the GPUs; it does not cover the way
// between host memory and the GPUs.
#pragma once

#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// What is asked of a sorted part that is not empty.
struct PartNumbers {
  std::uint64_t checksum = 0, violations = 0, first_key = 0, last_key = 0;
};

/// Computes them on the part's GPU, into as many bytes there.
void note_part(Runtime& runtime, Stream stream, const Records& sorted, const MemoryView& numbers);

/// Judges numbers that GPUs computed: what came in, and the sorted parts in their order.
class ResultCheck {
 public:
  explicit ResultCheck(KeyWidth width) : mask_(width == KeyWidth::k32 ? 0xffffffffULL : ~0ULL) {}
  void came_in(std::uint64_t checksum) { change_ -= checksum; }
  /// A sorted part, in the order of the parts. @throws CorruptDataError.
  void came_out(Place place, const PartNumbers& part);
  /// @throws CorruptDataError if what came out is not what came in.
  void finish() const;
  /// Of all that came out.
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

 private:
  std::uint64_t mask_;
  std::uint64_t change_ = 0;
  std::uint64_t checksum_ = 0;
  std::uint64_t last_key_ = 0;
};

/// Usage: `before` when the input is encoded, then sort, then `check`; with what lies on each stream's GPU.
class SortVerifier {
 public:
  SortVerifier(Runtime& runtime, std::vector<Stream> streams);
  void before(std::span<const Records> input);
  /// Reads the results back and returns their checksum. @throws CorruptDataError saying what is wrong and where.
  std::uint64_t check(std::span<const Records> sorted);
  /// The same where each GPU is to have all that came in.
  void check_copies(std::span<const Records> sorted);

 private:
  struct Numbers {
    std::uint64_t came_in = 0;
    PartNumbers came_out;
  };

  std::vector<Numbers> read(std::span<const Records> sorted);

  Runtime& runtime_;
  std::vector<Stream> streams_;
  std::vector<Buffer> numbers_;  // each a Numbers
};

}  // namespace linkwise
