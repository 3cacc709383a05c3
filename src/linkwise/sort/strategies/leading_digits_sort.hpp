// MSD radix sort of records that are spread over several GPUs, whose first level is the exchange
// (primitives/leading_digits.hpp).
//
// A large share of a GPU is cut into parts. Kernels store the records of each GPU's first part straight into it, and
// those of the other parts, in order, in their own GPU's memory. Copy engines send these while the first parts are
// sorted; each part is sorted when it has arrived. So the links are busy while the GPUs sort, and the first level takes
// hardly longer than within one GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/strategies/device_radix_sort.hpp"

namespace linkwise {

/// Sorts `input`, native keys which each stream's GPU reads from its own memory, in the order of their codes. Stable.
/// Returns nothing where the keys or their number do not suit, digits would cut them too unevenly, or memory is scarce:
/// device_radix_sort takes any keys, and gets by with less. `overwrites`: the input may be used as spare room.
/// `checksums`: 8 bytes for each input's, or empty; they are defined only if something is returned.
std::optional<std::vector<SortedRecords>> sort_by_leading_digits(Runtime& runtime, const SortPlan& plan,
                                                                 std::span<const Stream> streams, KeyCoding coding,
                                                                 std::span<const Records> input, bool overwrites,
                                                                 std::span<const MemoryView> checksums);

}  // namespace linkwise
