// Sorting records by their codes on the CPU with all its cores: the papers' baseline, also used for small inputs.
//
// The radix sort first partitions all records once, by the first eight bits that differ. Each thread has a
// consecutive part of the input; within a digit, its records come after those of the threads before it, which keeps
// the sort stable. A thread buffers a cache line for each digit before it writes, as Polychroniou and Ross do (sort22
// §6). Then each thread sorts whole digits in its caches (cache_sort.hpp). The comparison sort is libstdc++'s
// parallel mode (sort22 §6: "GNU parallel algorithms extension").
#pragma once

#include <cstdint>

#include "linkwise/primitives/kernels.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// Sorts `records`; `spare` is as large. Returns whether the result is in `spare`. Stable.
bool radix_sort_on_host(RecordType type, RawRecords records, RawRecords spare, std::uint64_t count);

/// Sorts `records` by comparison. Stable.
void comparison_sort_on_host(RecordType type, RawRecords records, std::uint64_t count);

/// For ResultCheck: the checksum and the violations of order of records in host memory.
std::uint64_t checksum_on_host(RecordType type, RawRecords records, std::uint64_t count);
std::uint64_t violations_on_host(KeyWidth width, const void* keys, std::uint64_t count);

}  // namespace linkwise
