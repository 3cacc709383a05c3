#include "linkwise/transfer/dense_ranks.hpp"

#include <cstdint>
#include <utility>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/strings.hpp"
#include "linkwise/primitives/ties.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t mark_bytes = 4, sum_bytes = 8, rank_bytes = 4, wide_rank_bytes = 8, position_bytes = 8;

// The last element before a part; empty for the first one.
MemoryView before(const DeviceColumn& column, std::size_t part) {
  const auto width = static_cast<std::uint64_t>(column.element_bytes);
  while (part > 0)
    if (const MemoryView& other = column.parts[--part]; other.bytes > 0) return other.slice(other.bytes - width, width);
  return {};
}

// The change of the first row after a part; empty for the last one.
MemoryView after(std::span<const MemoryView> changes, std::size_t part) {
  while (++part < changes.size())
    if (changes[part].bytes > 0) return changes[part].slice(0, mark_bytes);
  return {};
}

// On each GPU, a mark for each row that differs from the one before, the marks' running sums, and their number.
struct Marks {
  std::vector<Buffer> room;
  std::vector<MemoryView> marks, sums;
  std::vector<std::uint64_t> rows, counts;

  MemoryView make(Runtime& runtime, Stream stream, std::uint64_t bytes, const char* label) {
    return room.emplace_back(runtime.allocate(stream.place, bytes, label)).view();
  }
  // Sums up the marks of a GPU, whose number is there when `reads` were read.
  void sum(Runtime& runtime, Stream stream, std::size_t g, std::vector<ReadBack>& reads) {
    sums.push_back(make(runtime, stream, sum_bytes * (rows[g] + 1), "sums"));
    if (rows[g] == 0) return;
    running_sums(runtime, stream, {mark_bytes, false}, marks[g], sums[g],
                 make(runtime, stream, runtime.kernels().running_sums_scratch_bytes(rows[g]), "scratch"));
    reads.push_back({stream, sums[g].slice(sum_bytes * rows[g], sum_bytes), &counts[g]});
  }
};

enum class First : std::uint8_t { unmarked, marked };

Marks mark_runs(Runtime& runtime, std::span<const int> gpus, std::span<const DeviceColumn> columns, First first) {
  Marks made;
  made.counts.resize(gpus.size());
  std::vector<ReadBack> reads;
  bool is_first = true;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
    const std::uint64_t rows =
        columns.front().parts[g].bytes / static_cast<std::uint64_t>(columns.front().element_bytes);
    made.rows.push_back(rows);
    const MemoryView marks = made.marks.emplace_back(made.make(runtime, stream, mark_bytes * rows, "marks"));
    if (rows > 0) {
      set_bytes(runtime, stream, marks, 0);
      if (is_first && first == First::marked)
        iota(runtime, stream, ValueWidth::v4, marks.slice(0, mark_bytes), /*first=*/1);
      is_first = false;
      for (const DeviceColumn& column : columns)
        mark_changes(runtime, stream, column.element_bytes, column.parts[g], before(column, g), marks);
    }
    made.sum(runtime, stream, g, reads);
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

// The positions of the rows, so many on each GPU, that have a mark. `mark` gets a GPU's number, its stream, its rows'
// marks, and `room` for what it makes of them.
template <typename Mark>
std::vector<ColumnPart> marked_rows(Runtime& runtime, std::span<const int> gpus, const std::vector<std::uint64_t>& rows,
                                    const Mark& mark) {
  Marks made;
  made.rows = rows;
  made.counts.resize(gpus.size());
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
    const auto room = [&](std::uint64_t bytes) { return made.make(runtime, stream, bytes, "marks"); };
    made.marks.push_back(room(mark_bytes * rows[g]));
    if (rows[g] > 0) mark(g, stream, made.marks[g], room);
    made.sum(runtime, stream, g, reads);
  }
  if (!reads.empty()) runtime.read_back(reads);
  std::uint64_t rows_before = 0;
  return parts_of_marks(
      runtime, gpus, [&](std::size_t g) { return position_bytes * made.counts[g]; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        list_marked(runtime, stream, made.marks[g], made.sums[g], rows_before, to);
        rows_before += rows[g];
      });
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

std::vector<ColumnPart> tied_rows(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& ranks,
                                  const DeviceColumn& words) {
  std::vector<ColumnPart> tied;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    const Marks changes = mark_runs(runtime, gpus, std::span(&ranks, 1), First::marked);
    tied = marked_rows(runtime, gpus, changes.rows,
                       [&](std::size_t g, Stream stream, const MemoryView& marks, const auto& /*room*/) {
                         mark_ties(runtime, stream, words.parts[g], changes.marks[g], after(changes.marks, g), marks);
                       });
  });
  return tied;
}

std::vector<ColumnPart> rows_of_unequal_groups(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& groups,
                                               std::span<const StringPiece> strings) {
  std::vector<ColumnPart> listed;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    const Marks changes = mark_runs(runtime, gpus, std::span(&groups, 1), First::unmarked);
    listed = marked_rows(
        runtime, gpus, changes.rows, [&](std::size_t g, Stream stream, const MemoryView& marks, const auto& room) {
          const std::uint64_t rows = changes.rows[g], last = changes.counts[g];
          const MemoryView of_groups = room(mark_bytes * (last + 1)), numbers = room(rank_bytes * rows);
          set_bytes(runtime, stream, of_groups, 0);
          for (const std::uint64_t edge : {std::uint64_t{0}, last})
            if (gpus.size() > 1)
              iota(runtime, stream, ValueWidth::v4, of_groups.slice(mark_bytes * edge, mark_bytes), /*first=*/1);
          shift_offsets(runtime, stream, sum_bytes, changes.sums[g].slice(sum_bytes, sum_bytes * rows), rank_bytes,
                        numbers, 0);
          mark_unequal_strings(runtime, stream, strings[g], numbers, of_groups);
          gather(runtime, stream, mark_bytes, rank_bytes, of_groups, numbers, marks);
        });
  });
  return listed;
}

std::vector<ColumnPart> refined_ranks(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& ranks,
                                      const DeviceColumn& positions, const DeviceColumn& finer) {
  std::vector<ColumnPart> refined;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("rank");
    std::uint64_t rows_before = 0;
    refined = parts_of_marks(
        runtime, gpus, [&](std::size_t g) { return ranks.parts[g].bytes / rank_bytes * wide_rank_bytes; },
        [&](std::size_t g, Stream stream, const MemoryView& to) {
          refine_ranks(runtime, stream, ranks.parts[g], positions.parts[g], rows_before, finer.parts[g], to);
          rows_before += to.bytes / wide_rank_bytes;
        });
  });
  return refined;
}

}  // namespace linkwise
