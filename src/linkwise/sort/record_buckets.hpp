// Scatters keys to buckets by their leading digits. The buckets are sorted by the caller, e.g. with a library's
// in-cache sort.
//
// One pass over the keys counts them, another scatters their codes; a bucket then fits into a core's cache. The
// buckets are chosen from a sample, which leaves out digits that all keys share, as do Axtmann et al. (IPS2Ra, 2020)
// and Obeya et al. (SPAA'19): the sample's range is cut into cells; cells with many keys are cut into buckets, and
// neighbouring cells with few keys share one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

class KeyBuckets {
 public:
  /// Scatters the codes of `keys` into `codes`, which is as large. Returns nothing and leaves `codes` unchanged if
  /// keys are narrower than 4 bytes, not aligned or too few, or if a few cores would have most of the work.
  static std::optional<KeyBuckets> scatter(KeyType type, bool descending, const void* keys, void* codes,
                                           std::uint64_t count, bool verify);

  /// Where each bucket begins, and where the last one ends.
  [[nodiscard]] const std::vector<std::uint64_t>& begins() const { return begins_; }
  /// Finishes a bucket whose codes have been sorted: computes its numbers for verification and decodes its keys. May
  /// be called by any thread, once for each bucket.
  void finish(std::uint64_t bucket);
  /// To be called when all are finished. @throws CorruptDataError if the result is not the sorted input.
  void check() const;

 private:
  KeyBuckets(KeyType type, bool descending, void* codes, bool verify)
      : type_(type), descending_(descending), verify_(verify), codes_(codes) {}

  KeyType type_;
  bool descending_, verify_;
  void* codes_;
  std::uint64_t checksum_ = 0;
  std::vector<std::uint64_t> begins_;
  std::vector<std::optional<PartNumbers>> finished_;  // verification numbers of each bucket that is not empty
};

}  // namespace linkwise
