// Radix sort of records that are spread over the GPUs, into newly allocated memory.
//
// Each GPU's share of the keys' range is cut into a few buckets. One exchange brings every record to its bucket; then
// the GPU sorts bucket after bucket, so that the second buffer of the local sort need only hold a bucket or two:
//
//   - If the local sort makes an even number of passes, a bucket ends where it began. The buckets are contiguous, and
//     the spare room behind them (or in the donated input) takes the intermediate passes.
//   - If the number is odd, a bucket ends in the other buffer. Then the buckets are received behind the spare room,
//     and each result goes where its bucket would be without that room: it overwrites the space that earlier buckets
//     have freed.
//
// Either way the sorted records are contiguous. With one bucket this is the usual pair of buffers.
#pragma once

#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Sorted records, and their memory.
struct SortedRecords {
  Buffer memory;
  Records records;
};

/// Sorts `input`, which each stream's GPU reads from its own memory. `overwrites`: the input may be used as spare
/// room. All memory that the sort allocates, except that of the result, is retired.
std::vector<SortedRecords> device_radix_sort(Runtime& runtime, const SortPlan& plan, std::span<const Stream> streams,
                                             std::span<const Records> input, bool overwrites);

}  // namespace linkwise
