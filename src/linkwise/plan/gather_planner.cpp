#include "linkwise/plan/gather_planner.hpp"

#include <limits>

#include "linkwise/error.hpp"
#include "linkwise/plan/pricing.hpp"
#include "linkwise/transfer/column_gather.hpp"

namespace linkwise {
namespace {

constexpr double accesses_of_string = 2;  // its offset, and its bytes

double on_gpus(const Machine& machine, const GatherWorkload& workload, std::span<const int> gpus,
               std::uint64_t memory_limit) {
  VirtualRuntime runtime = estimating_runtime(machine);
  runtime.set_memory_limit(memory_limit);
  if (!runtime.reach_each_other(gpus)) return std::numeric_limits<double>::infinity();
  try {
    (void)gather_on_gpus(runtime, gpus, workload.columns, {nullptr, workload.row_bytes, workload.rows, true});
  } catch (const OutOfMemoryError&) {
    return std::numeric_limits<double>::infinity();
  }
  std::int64_t end = 0;
  for (const TimelineEntry& entry : runtime.timeline()) end = std::max(end, entry.end_ps);
  return static_cast<double>(end) * 1e-12;
}

double on_cores(const Machine& machine, const GatherWorkload& workload) {
  const Rate rate = machine.host_gather_rate();
  double seconds = 0;
  for (const ChunkedColumn& column : workload.columns) {
    const double accesses = column.has_strings() ? accesses_of_string : 1;
    seconds += rate.fixed_us * 1e-6 + static_cast<double>(workload.rows) * 1e-12 *
                                          (accesses * rate.ps_per_record + column.width * rate.ps_per_byte);
  }
  return seconds;
}

}  // namespace

void GatherWorkload::add(ChunkedColumn::Layout layout, int width, std::uint64_t source_rows, bool pageable) {
  ColumnChunk chunk;
  chunk.count = source_rows;
  chunk.pageable = pageable;
  columns.push_back({layout, width, {chunk}});
}

GatherPrice price_gather(const Machine& machine, const GatherWorkload& workload, std::span<const int> gpus,
                         std::uint64_t memory_limit) {
  return {on_gpus(machine, workload, gpus, memory_limit), on_cores(machine, workload)};
}

}  // namespace linkwise
