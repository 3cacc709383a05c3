// Which strategy sorts what is spread over the GPUs.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/sort_report.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Sorts by the plan's strategy what is spread over its GPUs: afterwards each chunk is sorted and no key of a
/// chunk is less than one of the chunk before. Stable with respect to (chunk, position). Work is enqueued on
/// the chunks' streams; control flow reads small results back.
/// @throws UsageError if the strategy cannot run on that number of GPUs.
void sort_chunks(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Chunk>& chunks,
                 ExpectedOrder expected_order = ExpectedOrder::random);

}  // namespace linkwise
