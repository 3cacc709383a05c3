// Checks that a sort returned its input in order: a multiset checksum before and after, the order within each chunk,
// and the order across chunks. Everything is computed on the GPUs; transfers between host memory and the GPUs are not
// covered.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Checks computed numbers: the checksums of the input, and the PartNumbers of the sorted parts in order.
class ResultCheck {
 public:
  explicit ResultCheck(KeyWidth width) : mask_(width == KeyWidth::k32 ? 0xffffffffULL : ~0ULL) {}
  void came_in(std::uint64_t checksum) { change_ -= checksum; }
  /// Adds a sorted part; to be called in the order of the parts. @throws CorruptDataError.
  void came_out(Place place, const PartNumbers& part);
  /// @throws CorruptDataError if the parts' checksum is not that of the input.
  void finish() const;
  /// The checksum of all sorted parts.
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

 private:
  std::uint64_t mask_;
  std::uint64_t change_ = 0;
  std::uint64_t checksum_ = 0;
  std::uint64_t last_key_ = 0;
};

/// Usage: `before` when the input is encoded, then sort, then `check`, or `look_at` and `finish`. Element p of the
/// records is on stream p's GPU.
class SortVerifier {
 public:
  /// `coding`: that of the keys to be checked, which may already be codes.
  SortVerifier(Runtime& runtime, std::vector<Stream> streams, KeyCoding coding);
  void before(std::span<const Records> input);
  /// Instead of `before`: where the sort itself is to write the checksum of that part of its input.
  [[nodiscard]] MemoryView came_in(std::size_t part) const {
    return numbers_[part].slice(offsetof(Numbers, came_in), sizeof Numbers::came_in);
  }
  /// Has the GPUs look at the sorted parts; `finish` reads what they find.
  void look_at(std::span<const Records> sorted);
  /// Returns the checksum of the sorted parts. @throws CorruptDataError saying what is wrong and where.
  std::uint64_t finish();
  std::uint64_t check(std::span<const Records> sorted) {
    look_at(sorted);
    return finish();
  }
  /// The same if each GPU must have the whole input.
  void check_copies(std::span<const Records> sorted);

 private:
  struct Numbers {
    std::uint64_t came_in = 0;
    PartNumbers came_out;
  };

  std::vector<Numbers> read();

  Runtime& runtime_;
  std::vector<Stream> streams_;
  KeyCoding coding_;
  std::vector<Buffer> numbers_;  // each a Numbers
  std::vector<bool> is_empty_;   // of the sorted parts
};

}  // namespace linkwise
