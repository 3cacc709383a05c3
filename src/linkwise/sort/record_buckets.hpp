// Scatters records to buckets by the leading digits of their keys. The buckets are sorted in the caches, by `sort` or,
// keys alone, by the caller, e.g. with a library's in-cache sort.
//
// One pass over the keys counts them, another scatters their codes; a bucket then fits into a core's cache. The
// buckets are chosen from a sample, which leaves out digits that all keys share, as do Axtmann et al. (IPS2Ra, 2020)
// and Obeya et al. (SPAA'19); see bucket_digits.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linkwise/primitives/kernels.hpp"
#include "linkwise/primitives/types.hpp"
#include "linkwise/sort/host_columns.hpp"

namespace linkwise {

class RecordBuckets {
 public:
  /// What is wanted of the sorted records.
  struct Wanted {
    bool descending = false;
    bool keys = true;  ///< Otherwise `to` keeps codes in place of keys.
    bool verify = true;
  };
  /// Scatters the codes of the input's keys, and its values or row numbers, into `to`, which is as large. Returns
  /// nothing and leaves `to` unchanged if keys are narrower than 4 bytes, not aligned or too few, or if a few cores
  /// would have most of the work. Stable. The input must not change meanwhile.
  static std::optional<RecordBuckets> scatter(const HostColumns& input, RawRecords to, Wanted wanted);

  /// Where each bucket begins, and where the last one ends.
  [[nodiscard]] const std::vector<std::uint64_t>& begins() const { return begins_; }
  /// Sorts all buckets by radix on all cores (cache_sort.hpp) and finishes them. Stable.
  void sort();
  /// Finishes a bucket whose codes, without values, have been sorted: computes its numbers for verification and
  /// decodes its keys. May be called by any thread, once for each bucket.
  void finish(std::uint64_t bucket);
  /// To be called when all are finished. @throws CorruptDataError if the result is not the sorted input.
  void check() const;

 private:
  RecordBuckets(const HostColumns& input, RawRecords to, Wanted wanted)
      : type_(input.key_type), record_{key_width(input.key_type), input.value_width}, wanted_(wanted), to_(to) {}

  template <typename Code, typename Value>
  void finish_records(std::uint64_t bucket);

  KeyType type_;
  RecordType record_;
  Wanted wanted_;
  RawRecords to_;
  std::uint64_t checksum_ = 0;
  std::vector<std::uint64_t> begins_;
  std::vector<std::optional<PartNumbers>> finished_;  // verification numbers of each bucket that is not empty
};

}  // namespace linkwise
