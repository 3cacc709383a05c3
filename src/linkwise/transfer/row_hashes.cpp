#include "linkwise/transfer/row_hashes.hpp"

#include <numeric>

#include "linkwise/error.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/row_hashes.hpp"
#include "linkwise/transfer/column_parts.hpp"

namespace linkwise {

std::vector<ColumnPart> row_hashes(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> columns) {
  const DeviceColumn& first = columns.front();
  return make_parts(
      runtime, gpus,
      [&](std::size_t g) { return first.parts[g].bytes / static_cast<std::uint64_t>(first.element_bytes) * 8; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("encode");
        set_bytes(runtime, stream, to, 0);
        for (const DeviceColumn& column : columns)
          mix_into_hashes(runtime, stream, to_key_width(column.element_bytes), column.parts[g], to);
      });
}

std::uint64_t unequal_pairs(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> left,
                            std::span<const DeviceColumn> right, int number_bytes,
                            std::span<const MemoryView> left_rows, std::span<const MemoryView> right_rows) {
  if (!runtime.peers_can_read(gpus))
    throw UsageError("these GPUs cannot read each other's memory; compare the rows in host memory");
  std::vector<std::uint64_t> found(gpus.size(), 0);
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    std::vector<Buffer> room;
    std::vector<ReadBack> reads;
    runtime.set_phase("verify");
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      const MemoryView unequal = room.emplace_back(runtime.allocate(stream.place, 8, "unequal")).view();
      set_bytes(runtime, stream, unequal, 0);
      for (std::size_t c = 0; c < left.size(); ++c)
        count_unequal(runtime, stream, to_key_width(left[c].element_bytes), number_bytes, left[c].parts, left_rows[g],
                      right[c].parts, right_rows[g], unequal);
      reads.push_back({stream, unequal, &found[g]});
    }
    runtime.read_back(reads);
  });
  return std::accumulate(found.begin(), found.end(), std::uint64_t{0});
}

}  // namespace linkwise
