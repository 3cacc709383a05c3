#include "linkwise/transfer/dense_ranks.hpp"

#include <cstdint>
#include <utility>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t mark_bytes = 4, sum_bytes = 8, rank_bytes = 4, position_bytes = 8;

// The last element before a part; empty for the first one.
MemoryView before(const DeviceColumn& column, std::size_t part) {
  const auto width = static_cast<std::uint64_t>(column.element_bytes);
  while (part > 0)
    if (const MemoryView& other = column.parts[--part]; other.bytes > 0) return other.slice(other.bytes - width, width);
  return {};
}

// On each GPU, a mark for each row that differs from the one before, the marks' running sums, and their number.
struct Marks {
  std::vector<Buffer> room;
  std::vector<MemoryView> marks, sums;
  std::vector<std::uint64_t> rows, counts;
};

enum class First : std::uint8_t { unmarked, marked };

Marks mark_runs(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> columns, First first) {
  Marks made;
  made.counts.resize(gpus.size());
  std::vector<ReadBack> reads;
  bool is_first = true;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
    const auto make = [&](std::uint64_t bytes, const char* label) {
      return made.room.emplace_back(runtime.allocate(stream.place, bytes, label)).view();
    };
    const std::uint64_t rows =
        columns.front().parts[g].bytes / static_cast<std::uint64_t>(columns.front().element_bytes);
    made.rows.push_back(rows);
    const MemoryView marks = made.marks.emplace_back(make(mark_bytes * rows, "marks")),
                     sums = made.sums.emplace_back(make(sum_bytes * (rows + 1), "sums"));
    if (rows == 0) continue;
    set_bytes(runtime, stream, marks, 0);
    if (is_first && first == First::marked)
      iota(runtime, stream, ValueWidth::v4, marks.slice(0, mark_bytes), /*first=*/1);
    is_first = false;
    for (const DeviceColumn& column : columns)
      mark_changes(runtime, stream, column.element_bytes, column.parts[g], before(column, g), marks);
    running_sums(runtime, stream, {mark_bytes, false}, marks, sums,
                 make(runtime.kernels().running_sums_scratch_bytes(rows), "scratch"));
    reads.push_back({stream, sums.slice(sum_bytes * rows, sum_bytes), &made.counts[g]});
  }
  if (!reads.empty()) runtime.read_back(reads);
  return made;
}

// Makes each GPU's part: `fill` gets its number, its stream and its memory, of `bytes_of(g)` bytes.
template <typename BytesOf, typename Fill>
std::vector<ColumnPart> parts_of_marks(Runtime& runtime, std::span<const int> gpus, const BytesOf& bytes_of,
                                       const Fill& fill) {
  std::vector<ColumnPart> parts;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
    Buffer made = runtime.allocate(stream.place, bytes_of(g), "column");
    fill(g, stream, made.view());
    parts.push_back({gpus[g], std::move(made), runtime.share(runtime.record(stream))});
  }
  runtime.synchronize();
  return parts;
}

}  // namespace

std::vector<ColumnPart> dense_ranks(Runtime& runtime, std::span<const int> gpus,
                                    std::span<const DeviceColumn> columns) {
  std::vector<ColumnPart> ranks;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    const Marks marks = mark_runs(runtime, gpus, columns, First::unmarked);
    std::uint64_t changes_before = 0;
    ranks = parts_of_marks(
        runtime, gpus, [&](std::size_t g) { return rank_bytes * marks.rows[g]; },
        [&](std::size_t g, Stream stream, const MemoryView& to) {
          if (to.bytes > 0)
            shift_offsets(runtime, stream, sum_bytes, marks.sums[g].slice(sum_bytes, sum_bytes * marks.rows[g]),
                          rank_bytes, to, changes_before);
          changes_before += marks.counts[g];
        });
  });
  return ranks;
}

std::vector<ColumnPart> starts_of_runs(Runtime& runtime, std::span<const int> gpus,
                                       std::span<const DeviceColumn> columns) {
  std::vector<ColumnPart> starts;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    const Marks marks = mark_runs(runtime, gpus, columns, First::marked);
    const auto listed = [&](std::size_t g) { return position_bytes * marks.counts[g]; };
    const auto is_last = [&](std::size_t g) { return g + 1 == gpus.size(); };
    std::uint64_t rows_before = 0;
    starts = parts_of_marks(
        runtime, gpus, [&](std::size_t g) { return listed(g) + (is_last(g) ? position_bytes : 0); },
        [&](std::size_t g, Stream stream, const MemoryView& to) {
          list_marked(runtime, stream, marks.marks[g], marks.sums[g], rows_before, to.slice(0, listed(g)));
          rows_before += marks.rows[g];
          if (is_last(g)) iota(runtime, stream, ValueWidth::v8, to.slice(listed(g), position_bytes), rows_before);
        });
  });
  return starts;
}

}  // namespace linkwise
