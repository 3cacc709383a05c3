#include <algorithm>

#include "linkwise/join/in_core/in_core_base.hpp"
#include "linkwise/join/in_core/in_core_join.hpp"
#include "linkwise/join/in_core/join_output.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {

std::uint64_t in_core_bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                    bool wants_rows) {
  const std::uint64_t gpus = plan.sort.gpus.size();
  const auto part = [&](std::uint64_t rows) { return gpus == 1 ? rows : rows / gpus + rows / gpus / 10 + 4096; };
  const auto scratch = [&](RecordType type, std::uint64_t rows) {
    return std::max(local_sort_scratch_bytes(kernels, type, rows), matching_scratch_bytes(kernels, rows));
  };
  const bool left_passes = left_probes(input);
  const std::uint64_t batches = wants_rows ? 1 : batches_of(plan, input.kind);
  std::uint64_t bytes = 16 << 20, spare = 0, sorting = 0, arriving = 0;
  for (const bool is_left : {true, false}) {
    const HostColumns& columns = is_left ? input.left : input.right;
    const RecordType type{key_width(columns.key_type), columns.value_width};
    const bool passes = is_left == left_passes && batches > 1;
    const std::uint64_t of_batch = passes ? columns.count / batches + 1 : columns.count;
    const std::uint64_t rows = std::min(part(columns.count), of_batch);
    bytes += (passes ? std::min<std::uint64_t>(batches, most_passing) : 1) * record_bytes(type, rows);
    if (!wants_rows && !passes) bytes += 8 * rows;  // running sums
    spare = std::max(spare, record_bytes(type, rows));
    sorting = std::max(sorting, scratch(type, rows));
    arriving = std::max(
        arriving, RelationExchange::bytes_per_gpu(plan.sort, type, of_batch) +
                      kernels.partition_scratch_bytes(type, RelationExchange::piece_rows(plan.sort, type, of_batch),
                                                      static_cast<int>(gpus)) +
                      sample_bytes(kernels, type.key, 2 * join_samples(plan)) + bytes_to_look_at_keys(kernels, type));
  }
  bytes += spare + sorting + arriving;
  if (wants_rows)
    bytes += JoinOutput::bytes_per_gpu(kernels, plan, input, part(input.left.count), part(input.right.count));
  return bytes;
}

}  // namespace linkwise
