// Radix-partitioned multi-GPU sort with a single all-to-all exchange.
//
// After join25 §3.1.2, with sample splitters instead of refined MSB buckets: 2^20 stratified samples with their
// (source, position) are sorted on one GPU and cut into g equal parts. Because the position breaks ties, every GPU
// gets its share whatever the keys are, even if all are equal, in one round. Each GPU then partitions its records by
// destination and sends them in source order, and sorts what it received by the bits in which its range of keys can
// still differ. O(n/g) work per GPU; (g-1)/g · n records cross links.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// See sort_chunks. Any number of GPUs; stable.
void radix_sort(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Chunk>& chunks);

}  // namespace linkwise
