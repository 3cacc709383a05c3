// Sorts records on one GPU, with two buffers.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Sorts buckets of codes on one stream: by MSD radix sort if that suits the keys and there is memory for it,
/// otherwise by LSD radix sort.
class LocalSort {
 public:
  /// For buckets of up to `most` records.
  LocalSort(Runtime& runtime, Stream stream, RecordType type, std::uint64_t most);

  /// Allows MSD radix sort, for keys for which suits_msd_sort holds. Allocates more memory for it, if available.
  void allow_msd(RecordType type, std::uint64_t most);

  /// Sorts `first` by `bits`; keys must not differ in other bits. If `lands`, the result is in `second`, otherwise in
  /// `first`; `lands` must be what kernels().sort_lands_in_secondary says of LSD radix sort. A single record may stay
  /// in `first`.
  Records sort(const Records& first, const Records& second, BitRange bits, bool lands);

  void retire();

 private:
  Runtime& runtime_;
  Stream stream_;
  Buffer scratch_, msd_scratch_, spread_;
};

}  // namespace linkwise
