#include "linkwise/join/host_join.hpp"

#include "linkwise/join/in_core_join.hpp"

namespace linkwise {

JoinTotals join_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  runtime.clear_timeline();
  JoinTotals totals;
  run_or_abandon(runtime, [&] { totals = in_core_totals(runtime, plan, input); });
  return totals;
}

std::uint64_t join_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs) {
  runtime.clear_timeline();
  std::uint64_t rows = 0;
  run_or_abandon(runtime, [&] { rows = in_core_rows(runtime, plan, input, outputs); });
  return rows;
}

}  // namespace linkwise
