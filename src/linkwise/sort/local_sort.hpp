// Sorts records on one GPU, with two buffers: by MSD radix sort where that suits the keys, otherwise by LSD radix sort.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Scratch for sorting up to `most` records, and for fewer.
std::uint64_t local_sort_scratch_bytes(const Kernels& kernels, RecordType type, std::uint64_t most);

/// How to sort, and in which buffer the result is to be.
struct LocalSort {
  /// The bits in which keys may differ.
  BitRange bits;
  /// Whether the keys suit MSD radix sort, as keys_suit_msd_sort tells (exchange/samples.hpp). Few records, and such as
  /// it does not support, are sorted by LSD radix sort anyway.
  bool by_msd = false;
  enum class Into : std::uint8_t { either, first, second } into = Into::either;
};

/// Sorts codes. Stable. Overwrites the buffer that does not receive the result. Returns the result.
Records sort_locally(Runtime& runtime, Stream stream, const Records& first, const Records& second, LocalSort how,
                     const MemoryView& scratch);

}  // namespace linkwise
