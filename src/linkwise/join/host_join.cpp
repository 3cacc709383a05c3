#include "linkwise/join/host_join.hpp"

#include <algorithm>

#include "linkwise/error.hpp"
#include "linkwise/join/baselines/hybrid_radix_join.hpp"
#include "linkwise/join/in_core/in_core_join.hpp"
#include "linkwise/join/out_of_core/sorted_join.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

bool join_fits(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, bool wants_rows) {
  check_gpus(runtime.machine(), plan.sort);
  return std::ranges::all_of(plan.sort.gpus, [&](int gpu) {
    const std::uint64_t rings = Router::ring_bytes(plan.sort.paths, plan.sort.relay_bytes, gpu);
    return rings + in_core_bytes_per_gpu(runtime.kernels(), plan, input, wants_rows) <=
           runtime.available(Place::gpu(gpu));
  });
}

namespace {

// Hands the input arrays back to the caller: none of our work uses them any more.
void hand_back(Runtime& runtime, const JoinInput& input) {
  for (const HostColumns* side : {&input.left, &input.right}) linkwise::hand_back(runtime, views_of(*side));
}

}  // namespace

JoinTotals join_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  check_join(runtime.machine(), plan, input.left.key_type, input.right.key_type);
  runtime.clear_timeline();
  JoinTotals totals;
  run_or_abandon(runtime, [&] {
    totals = plan.path == JoinPath::in_core        ? in_core_totals(runtime, plan, input)
             : plan.path == JoinPath::hybrid_radix ? hybrid_radix_totals(runtime, plan, input)
                                                   : sorted_totals(runtime, plan, input);
    hand_back(runtime, input);
  });
  return totals;
}

std::uint64_t join_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs) {
  check_join(runtime.machine(), plan, input.left.key_type, input.right.key_type);
  if (plan.path == JoinPath::hybrid_radix) throw UsageError("the hybrid radix join, which is a baseline, counts rows");
  runtime.clear_timeline();
  std::uint64_t rows = 0;
  run_or_abandon(runtime, [&] {
    rows = plan.path == JoinPath::in_core ? in_core_rows(runtime, plan, input, outputs)
                                          : sorted_rows(runtime, plan, input, outputs);
    hand_back(runtime, input);
  });
  return rows;
}

void join_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays) {
  check_join(runtime.machine(), plan, input.left.key_type, input.right.key_type);
  if (plan.path != JoinPath::sorted && plan.path != JoinPath::pairwise)
    throw UsageError("ranges are found among sorted relations; the path is 'sorted'");
  for (const HostColumns* side : {&input.left, &input.right})
    if (side->value_width != ValueWidth::v4 && side->value_width != ValueWidth::v8)
      throw UsageError("ranges are of values of 4 or 8 bytes");
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    sorted_ranges(runtime, plan, input, arrays);
    hand_back(runtime, input);
  });
}

}  // namespace linkwise
