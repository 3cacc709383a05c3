// Keys in buckets by their leading digits, each of which somebody else is to sort: a library's sort in the caches.
//
// One read of the keys counts them, one more scatters their codes; a bucket then fits a core's cache. Where the keys
// lie is asked of a sample, as Axtmann et al. (IPS2Ra, 2020) and Obeya et al. (SPAA'19) leave out digits that all keys
// share: its range is cut into cells, cells that hold much into buckets, and those that hold little share one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

class KeyBuckets {
 public:
  /// Scatters the codes of `keys` into `codes`, whose room is as large; the bytes of a key are 4 or 8. None if the keys
  /// lie so that a few cores would have most of the work; `codes` is untouched then.
  static std::optional<KeyBuckets> scatter(KeyType type, bool descending, const void* keys, void* codes,
                                           std::uint64_t count, bool verify);

  /// Where each bucket begins, and where the last one ends.
  [[nodiscard]] const std::vector<std::uint64_t>& begins() const { return begins_; }
  /// Takes a bucket whose codes have been sorted: notes what is to be verified and makes them keys again. By any
  /// thread, each bucket once.
  void finish(std::uint64_t bucket);
  /// After all of them. @throws CorruptDataError if they are not the keys that came in, in order.
  void check() const;

 private:
  KeyBuckets(KeyType type, bool descending, void* codes, bool verify)
      : type_(type), descending_(descending), verify_(verify), codes_(codes) {}

  KeyType type_;
  bool descending_, verify_;
  void* codes_;
  std::uint64_t checksum_ = 0;
  std::vector<std::uint64_t> begins_;
  std::vector<std::optional<PartNumbers>> finished_;  // what is to be verified of each bucket that holds codes
};

}  // namespace linkwise
