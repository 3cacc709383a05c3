#include "linkwise/sort/sort_chunks.hpp"

#include "linkwise/sort/strategies/bucket_radix_sort.hpp"
#include "linkwise/sort/strategies/p2p_merge_sort.hpp"
#include "linkwise/sort/strategies/radix_sort.hpp"

namespace linkwise {

void sort_chunks(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Chunk>& chunks,
                 ExpectedOrder expected_order) {
  if (chunks.size() == 1) {
    runtime.set_phase("sort");
    return sort_locally(runtime, chunks.front(), {0, chunks.front().type().key_bits()},
                        chunks_suit_msd_sort(runtime, chunks));
  }
  if (is_in_buckets(plan)) bucket_radix_sort(runtime, router, chunks);
  else if (plan.strategy == SortStrategy::radix) radix_sort(runtime, router, plan, chunks);
  else p2p_merge_sort(runtime, router, chunks, expected_order);
}

}  // namespace linkwise
