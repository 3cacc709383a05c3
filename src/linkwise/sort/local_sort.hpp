// The sort of what lies on one GPU, in two buffers.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Sorts codes on one stream, one bucket after the other: by the most significant digits first where that suits the
/// keys and there is memory for it, else by the least.
class LocalSort {
 public:
  /// Of up to `most` records.
  LocalSort(Runtime& runtime, Stream stream, RecordType type, std::uint64_t most);

  /// Their keys lie as suits_msd_sort wants it. Takes more memory if there is any.
  void allow_msd(RecordType type, std::uint64_t most);

  /// Sorts `first` by the bits, beyond which the keys do not differ; the result lies in `second` if that `lands` there,
  /// as kernels().sort_lands_in_secondary says of the sort by the least. A single record may stay where it is.
  Records sort(const Records& first, const Records& second, BitRange bits, bool lands);

  void retire();

 private:
  Runtime& runtime_;
  Stream stream_;
  Buffer scratch_, msd_scratch_, spread_;
};

}  // namespace linkwise
