// Dispatches the sort of records that are spread over the GPUs to a strategy.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/sort_report.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Sorts the records that are spread over the plan's GPUs by its strategy: afterwards each chunk is sorted, and no
/// key of a chunk is less than one of the chunk before. Stable with respect to (chunk, position). Enqueues work on
/// the chunks' streams; the host blocks where it reads small results back.
/// @throws UsageError if the strategy cannot run on that number of GPUs.
void sort_chunks(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Chunk>& chunks,
                 ExpectedOrder expected_order = ExpectedOrder::random);

}  // namespace linkwise
