#include "linkwise/transfer/dense_ranks.hpp"

#include <cstdint>
#include <utility>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t mark_bytes = 4, sum_bytes = 8, rank_bytes = 4;

// The last element before a part; empty for the first one.
MemoryView before(const DeviceColumn& column, std::size_t part) {
  const auto width = static_cast<std::uint64_t>(column.element_bytes);
  while (part > 0)
    if (const MemoryView& other = column.parts[--part]; other.bytes > 0) return other.slice(other.bytes - width, width);
  return {};
}

}  // namespace

std::vector<ColumnPart> dense_ranks(Runtime& runtime, std::span<const int> gpus,
                                    std::span<const DeviceColumn> columns) {
  const auto rows = [&](std::size_t g) {
    return columns.front().parts[g].bytes / static_cast<std::uint64_t>(columns.front().element_bytes);
  };
  std::vector<ColumnPart> ranks;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    std::vector<Buffer> room;  // kept until all has run
    std::vector<MemoryView> sums;
    std::vector<std::uint64_t> changes(gpus.size(), 0);
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      const auto make = [&](std::uint64_t bytes, const char* label) {
        return room.emplace_back(runtime.allocate(stream.place, bytes, label)).view();
      };
      const MemoryView marks = make(mark_bytes * rows(g), "marks");
      sums.push_back(make(sum_bytes * (rows(g) + 1), "sums"));
      const MemoryView scratch = make(runtime.kernels().running_sums_scratch_bytes(rows(g)), "scratch");
      if (rows(g) == 0) continue;
      set_bytes(runtime, stream, marks, 0);
      for (const DeviceColumn& column : columns)
        mark_changes(runtime, stream, column.element_bytes, column.parts[g], before(column, g), marks);
      running_sums(runtime, stream, {mark_bytes, false}, marks, sums.back(), scratch);
      reads.push_back({stream, sums.back().slice(sum_bytes * rows(g), sum_bytes), &changes[g]});
    }
    if (!reads.empty()) runtime.read_back(reads);
    std::uint64_t changes_before = 0;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      Buffer made = runtime.allocate(stream.place, rank_bytes * rows(g), "ranks");
      if (rows(g) > 0)
        shift_offsets(runtime, stream, sum_bytes, sums[g].slice(sum_bytes, sum_bytes * rows(g)), rank_bytes,
                      made.view(), changes_before);
      ranks.push_back({gpus[g], std::move(made), runtime.share(runtime.record(stream))});
      changes_before += changes[g];
    }
    runtime.synchronize();
  });
  return ranks;
}

}  // namespace linkwise
