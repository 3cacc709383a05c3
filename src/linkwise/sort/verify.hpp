// Checks that a sort returned its input in order: a multiset checksum before and after, the order within
// each chunk, and the order across chunks. Everything is computed on the GPUs; it does not cover the way
// between host memory and the GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

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
  /// `coding`: of the keys that it is given, which may be codes.
  SortVerifier(Runtime& runtime, std::vector<Stream> streams, KeyCoding coding);
  void before(std::span<const Records> input);
  /// Instead of `before`: where the sort itself is to write the checksum of what came in.
  [[nodiscard]] MemoryView came_in(std::size_t part) const {
    return numbers_[part].slice(offsetof(Numbers, came_in), sizeof Numbers::came_in);
  }
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
  KeyCoding coding_;
  std::vector<Buffer> numbers_;  // each a Numbers
};

}  // namespace linkwise
