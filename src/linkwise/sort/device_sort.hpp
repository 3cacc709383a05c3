// Sorting what lies on the GPUs already; the result stays there, balanced.
//
// The radix strategy never needs the caller's memory but to read it, each GPU its own (torch's and CuPy's has no peer
// mapping): its records are stored straight into the parts that they belong to, in our memory, and sorted there.
//
// Streams: work begins behind what the caller's streams hold when the call is made, and what the caller enqueues on
// them afterwards comes behind the result. The call itself blocks the host until the splitters are counted (and, with
// verification, to the end), and first for what an earlier call has still running; the GPUs go on when it returns.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// What the caller has on one GPU.
struct DevicePart {
  std::uint64_t count = 0;
  void* keys = nullptr;
  void* values = nullptr;  ///< null where the value width is 0
  void* stream = nullptr;  ///< the caller's cudaStream_t; null is the legacy default stream
};

/// The input: a part for each of the plan's GPUs, in its order.
struct DeviceColumns {
  KeyType key_type = KeyType::u32;
  ValueWidth value_width = ValueWidth::none;
  std::vector<DevicePart> parts;
  bool donated = false;  ///< the sort may overwrite the input, and so needs less memory
};

/// A GPU's share of the result, in memory of its own.
struct SortedPart {
  int gpu = 0;
  std::uint64_t count = 0;
  Buffer memory;
  MemoryView keys;  ///< native keys
  MemoryView values;
  std::shared_ptr<SharedEvent> ready;
};

/// Sorts by radix or p2p_merge; stable with respect to (GPU, position). Parts come back in the order of the plan's
/// GPUs, no key less than one of the part before; with radix each holds its equal share within about one percent,
/// with p2p_merge as much as came in. To give a part's memory back, `retire` it.
/// @throws UsageError for a plan or columns that cannot be sorted, OutOfMemoryError, CorruptDataError if verification
/// fails.
std::vector<SortedPart> sort_device(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns,
                                    const SortOptions& options);

}  // namespace linkwise
