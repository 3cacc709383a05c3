// Sorts records on one GPU, with two buffers: by MSD radix sort where that suits the keys, otherwise by LSD radix sort.
#pragma once

#include <vector>

#include "linkwise/sort/exchange/samples.hpp"

namespace linkwise {

/// Scratch for sorting up to `most` records, and for fewer.
std::uint64_t local_sort_scratch_bytes(const Kernels& kernels, RecordType type, std::uint64_t most);

/// How to sort, and in which buffer the result is to be.
struct LocalSort {
  /// The bits in which keys may differ.
  BitRange bits;
  /// Whether the keys suit MSD radix sort. Few records, and such as it does not support, are sorted by LSD radix sort
  /// anyway.
  bool by_msd = false;
  enum class Into : std::uint8_t { either, first, second } into = Into::either;
};

/// Sorts codes. Stable. Overwrites the buffer that does not receive the result. Returns the result.
Records sort_locally(Runtime& runtime, Stream stream, const Records& first, const Records& second, LocalSort how,
                     const MemoryView& scratch);

/// Whether MSD radix sort is faster for parts of the sources, which have up to `most` records of this type each. Looks
/// at a small sample, and blocks; does neither if parts of this size are not sorted in this way. `sources` need no
/// number of samples.
bool keys_suit_msd_sort(Runtime& runtime, KeyType type, bool descending, std::vector<SampleSource> sources,
                        RecordType record, std::uint64_t most);
/// Bytes that this takes on the GPU of the first source.
std::uint64_t bytes_to_look_at_keys(const Kernels& kernels, RecordType record);

}  // namespace linkwise
