// Sorts device-resident data; the result stays on the GPUs, balanced.
//
// The radix strategy needs no more than read access to the caller's memory, for each GPU to its own (memory of torch
// and CuPy has no peer mapping): records are stored straight into the parts that they belong to, in the runtime's
// memory, and sorted there.
//
// Streams: the sort is stream-ordered after work that is already queued on the caller's streams, and what the caller
// enqueues on them afterwards is ordered after the result. The call first blocks the host until the work of an
// earlier call is done, and then until the records between the splitters are counted or, with verification, until the
// end. The GPUs may still be working when it returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

/// The caller's data on one GPU.
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
  bool donated = false;  ///< the sort may overwrite the input, so that it needs less memory
};

/// A GPU's part of the result, with its own memory.
struct SortedPart {
  int gpu = 0;
  std::uint64_t count = 0;
  Buffer memory;
  MemoryView keys;  ///< native keys
  MemoryView values;
  std::shared_ptr<SharedEvent> ready;
};

using TakeParts = std::function<void(std::vector<SortedPart>)>;

/// Sorts by radix or p2p_merge; stable with respect to (GPU, position). Parts are in the order of the plan's GPUs,
/// and no key is less than one of the part before. With radix each part is an equal share within about one percent;
/// with p2p_merge each GPU has as many records as before. `retire` a part's memory to free it.
/// @throws UsageError for a plan or columns that cannot be sorted, OutOfMemoryError, CorruptDataError if verification
/// fails.
std::vector<SortedPart> sort_device(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns,
                                    const SortOptions& options);
/// The same, but calls `take` while the GPUs sort: what it does takes no time from the call. The parts are verified,
/// and may be used, when the call returns. If it throws after `take`, they must be dropped.
void sort_device(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns, const SortOptions& options,
                 const TakeParts& take);

}  // namespace linkwise
