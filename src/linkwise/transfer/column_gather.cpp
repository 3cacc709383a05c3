#include "linkwise/transfer/column_gather.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/transfer/column_share.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

constexpr std::uint64_t window_rows = 4 << 20;  // that leave while the next ones are gathered
constexpr IntegerType length_type{8, false};

// Device memory, cut up.
class Carver {
 public:
  explicit Carver(MemoryView memory) : memory_(memory) {}
  MemoryView take(std::uint64_t bytes) {
    const MemoryView view = memory_.slice(at_, bytes);
    at_ += rounded(bytes);
    return view;
  }

 private:
  MemoryView memory_;
  std::uint64_t at_ = 0;
};

class ColumnGather {
 public:
  ColumnGather(Runtime& runtime, std::span<const int> gpus, std::span<const ChunkedColumn> columns,
               const RowNumbers& rows, std::vector<GatheredColumn>& results)
      : runtime_(runtime), columns_(columns), rows_(rows), results_(results), source_rows_(columns.front().count()) {
    for (const int gpu : gpus) {
      const Place place = Place::gpu(gpu);
      Worker worker;
      worker.in = runtime.stream(place, "in");
      worker.compute = runtime.stream(place, "compute");
      worker.out = runtime.stream(place, "out");
      worker.source = share_of(source_rows_, workers_.size(), gpus.size());
      worker.made = share_of(rows.count, workers_.size(), gpus.size());
      worker.rows =
          runtime.allocate(place, worker.made.count() * static_cast<std::uint64_t>(rows.width), "row numbers");
      workers_.push_back(std::move(worker));
    }
  }

  // Columns that the GPUs have room for together.
  [[nodiscard]] std::vector<std::vector<std::size_t>> turns(const std::vector<std::size_t>& wanted) {
    std::vector<std::vector<std::size_t>> turns;
    std::vector<std::uint64_t> left;
    for (const std::size_t c : wanted) {
      std::vector<std::uint64_t> needed;
      for (const Worker& worker : workers_) {
        const GatherBytes need = need_of(c, worker);
        needed.push_back(need.known() + rounded(need.strings));
      }
      const auto fits = [&] { return std::ranges::equal(needed, left, std::less_equal()); };
      if (turns.empty() || !fits()) {
        left.clear();
        for (const Worker& worker : workers_) left.push_back(runtime_.available(worker.in.place));
        if (!fits())
          throw OutOfMemoryError("a column of " + std::to_string(source_rows_) +
                                 " rows does not fit into the GPUs; use more of them, or raise memory_limit");
        turns.emplace_back();
      }
      turns.back().push_back(c);
      for (std::size_t g = 0; g < workers_.size(); ++g) left[g] -= needed[g];
    }
    return turns;
  }

  void bring_rows() {
    runtime_.set_phase("HtoD");
    for (Worker& worker : workers_) {
      const auto width = static_cast<std::uint64_t>(rows_.width);
      copy_in(worker, worker.rows.view(), rows_.data, worker.made.begin * width, rows_.pageable);
    }
  }

  // The host is not waited for, but for the lengths of strings.
  void enqueue(const std::vector<std::size_t>& turn) {
    std::vector<std::size_t> strings, others;
    for (const std::size_t c : turn) (columns_[c].has_strings() ? strings : others).push_back(c);
    for (Worker& worker : workers_) make_room(worker, turn);
    runtime_.set_phase("HtoD");
    // The widest first: what goes out when nothing comes in any more should be little.
    std::ranges::stable_sort(others, std::greater<>(), [&](std::size_t c) { return columns_[c].width; });
    for (const std::size_t c : strings) for_workers([&](Worker& worker) { bring_offsets(worker, c); });
    for (const std::size_t c : strings) for_workers([&](Worker& worker) { bring_bytes(worker, c); });
    for (const std::size_t c : others) for_workers([&](Worker& worker) { bring_elements(worker, c); });
    for (const std::size_t c : strings) find_lengths(c);
    make_room_for_strings(strings);
    for (const std::size_t c : strings) gather_bytes(c);
    for (const std::size_t c : others) gather_elements(c);
  }

  // When all that was enqueued has run.
  void finish_turn() {
    runtime_.synchronize();
    for (Worker& worker : workers_) {
      worker.strings = {};
      worker.columns.clear();
      worker.memory = {};
    }
  }

 private:
  // A column's share on a GPU, and what becomes of it.
  struct OnGpu {
    MemoryView source, offsets, raw_offsets, made, lengths, sums, scratch, strings;
    Event offsets_there, there;
    std::uint64_t strings_begin = 0;  // in the whole result
  };
  struct Worker {
    Stream in, compute, out;
    Share source, made;  // rows
    Buffer rows, memory, strings;
    std::vector<std::pair<std::size_t, OnGpu>> columns;  // of this turn, by number
    OnGpu& column(std::size_t c) {
      return std::ranges::find(columns, c, &std::pair<std::size_t, OnGpu>::first)->second;
    }
  };

  template <typename Body>
  void for_workers(Body&& body) {
    for (Worker& worker : workers_) body(worker);
  }

  [[nodiscard]] GatherBytes need_of(std::size_t c, const Worker& worker) const {
    return linkwise::gather_bytes(runtime_.kernels(), columns_[c], worker.source, worker.made);
  }

  void make_room(Worker& worker, const std::vector<std::size_t>& turn) {
    std::uint64_t bytes = 0;
    for (const std::size_t c : turn) bytes += need_of(c, worker).known();
    worker.memory = runtime_.allocate(worker.in.place, bytes, "columns");
    Carver carver(worker.memory.view());
    for (const std::size_t c : turn) {
      const GatherBytes need = need_of(c, worker);
      OnGpu on_gpu;
      for (const auto& [view, size] : {std::pair{&on_gpu.source, need.source},
                                       {&on_gpu.offsets, need.offsets},
                                       {&on_gpu.raw_offsets, need.raw_offsets},
                                       {&on_gpu.made, need.made},
                                       {&on_gpu.lengths, need.lengths},
                                       {&on_gpu.sums, need.sums},
                                       {&on_gpu.scratch, need.scratch}})
        *view = carver.take(size);
      worker.columns.emplace_back(c, on_gpu);
    }
  }

  void copy_in(const Worker& worker, const MemoryView& to, const void* from, std::uint64_t offset, bool pageable) {
    if (to.bytes > 0) runtime_.copy(worker.in, to, host_view(from, offset, to.bytes, pageable));
  }

  void bring_elements(Worker& worker, std::size_t c) {
    OnGpu& mine = worker.column(c);
    const auto width = static_cast<std::uint64_t>(columns_[c].width);
    std::uint64_t at = 0;
    for (const ChunkPart& part : parts_of(columns_[c], worker.source)) {
      const std::uint64_t bytes = part.rows.count() * width;
      copy_in(worker, mine.source.slice(at, bytes), part.chunk->values, (part.chunk->offset + part.rows.begin) * width,
              part.chunk->pageable);
      at += bytes;
    }
    mine.there = runtime_.record(worker.in);
  }

  // Those of each chunk count from somewhere else; on the GPU, all from the first byte there.
  void bring_offsets(Worker& worker, std::size_t c) {
    OnGpu& mine = worker.column(c);
    const ChunkedColumn& column = columns_[c];
    const std::uint64_t width = offset_bytes(column);
    std::uint64_t row = 0, raw_at = 0, bytes_before = 0;
    for (const ChunkPart& part : parts_of(column, worker.source)) {
      const std::uint64_t numbers = part.rows.count() + 1;
      const MemoryView raw = mine.raw_offsets.slice(raw_at, numbers * width);
      copy_in(worker, raw, part.chunk->offsets, (part.chunk->offset + part.rows.begin) * width, part.chunk->pageable);
      const Share bytes = bytes_of(column, part);
      shift_offsets(runtime_, worker.in, static_cast<int>(width), raw, 8, mine.offsets.slice(8 * row, 8 * numbers),
                    bytes_before - bytes.begin);
      row += part.rows.count();
      raw_at += raw.bytes;
      bytes_before += bytes.count();
    }
    mine.offsets_there = runtime_.record(worker.in);
  }

  void bring_bytes(Worker& worker, std::size_t c) {
    OnGpu& mine = worker.column(c);
    std::uint64_t at = 0;
    for (const ChunkPart& part : parts_of(columns_[c], worker.source)) {
      const Share bytes = bytes_of(columns_[c], part);
      copy_in(worker, mine.source.slice(at, bytes.count()), part.chunk->values, bytes.begin, part.chunk->pageable);
      at += bytes.count();
    }
    mine.there = runtime_.record(worker.in);
  }

  std::vector<StringPiece> string_pieces(std::size_t c) {
    std::vector<StringPiece> pieces;
    for_workers([&](Worker& worker) {
      if (worker.source.count() > 0) pieces.push_back({worker.column(c).offsets, worker.column(c).source});
    });
    return pieces;
  }

  // What lies on all of them can be read by each.
  void wait_for_all(Stream stream, std::size_t c, Event OnGpu::* event) {
    for_workers([&](Worker& other) { runtime_.wait(stream, other.column(c).*event); });
  }

  void find_lengths(std::size_t c) {
    runtime_.set_phase("gather");
    const std::vector<StringPiece> pieces = string_pieces(c);
    for_workers([&](Worker& worker) {
      if (worker.made.count() == 0) return;
      OnGpu& mine = worker.column(c);
      wait_for_all(worker.compute, c, &OnGpu::offsets_there);
      gather_lengths(runtime_, worker.compute, rows_.width, pieces, worker.rows.view(), mine.lengths);
      running_sums(runtime_, worker.compute, length_type, mine.lengths, mine.sums, mine.scratch);
    });
  }

  // How many bytes the strings have is known when their lengths have been added up.
  void make_room_for_strings(const std::vector<std::size_t>& strings) {
    std::vector<std::uint64_t> totals(strings.size() * workers_.size(), 0), expected = totals;
    std::vector<ReadBack> reads;
    const auto at = [&](std::size_t s, std::size_t g) { return s * workers_.size() + g; };
    for (std::size_t s = 0; s < strings.size(); ++s)
      for (std::size_t g = 0; g < workers_.size(); ++g) {
        Worker& worker = workers_[g];
        if (worker.made.count() == 0) continue;
        expected[at(s, g)] = static_cast<std::uint64_t>(columns_[strings[s]].width) * worker.made.count();
        reads.push_back({worker.compute, worker.column(strings[s]).sums.slice(8 * worker.made.count(), 8),
                         &totals[at(s, g)], &expected[at(s, g)]});
      }
    if (!reads.empty()) runtime_.read_back(reads);
    for (std::size_t g = 0; g < workers_.size(); ++g) {
      Worker& worker = workers_[g];
      std::uint64_t bytes = 0;
      for (std::size_t s = 0; s < strings.size(); ++s) bytes += rounded(totals[at(s, g)]);
      worker.strings = runtime_.allocate(worker.in.place, bytes, "strings");
      Carver carver(worker.strings.view());
      for (std::size_t s = 0; s < strings.size(); ++s)
        worker.column(strings[s]).strings = carver.take(totals[at(s, g)]);
    }
    for (const std::size_t c : strings) {
      std::uint64_t begin = 0;
      for_workers([&](Worker& worker) {
        worker.column(c).strings_begin = begin;
        begin += worker.column(c).strings.bytes;
      });
      const bool is_narrow = columns_[c].layout == Layout::strings32;
      if (is_narrow && begin > std::numeric_limits<std::int32_t>::max() && !runtime_.estimating())
        throw std::overflow_error("the strings take more bytes than their offsets count");
      results_[c].value_bytes = begin;
      results_[c].values.emplace(begin);
      results_[c].offsets.emplace((rows_.count + 1) * offset_bytes(columns_[c]));
    }
  }

  void send(Worker& worker, std::byte* to, std::uint64_t offset, const MemoryView& from) {
    if (from.bytes == 0) return;
    runtime_.set_phase("DtoH");
    runtime_.wait(worker.out, runtime_.record(worker.compute));
    runtime_.copy(worker.out, host_view(to, offset, from.bytes, /*pageable=*/true), from);
    runtime_.set_phase("gather");
  }

  void gather_elements(std::size_t c) {
    runtime_.set_phase("gather");
    const int width = columns_[c].width;
    const auto bytes = static_cast<std::uint64_t>(width), index_bytes = static_cast<std::uint64_t>(rows_.width);
    results_[c].value_bytes = rows_.count * bytes;
    std::byte* to = results_[c].values.emplace(results_[c].value_bytes).data();
    std::vector<MemoryView> pieces;
    for_workers([&](Worker& worker) { pieces.push_back(worker.column(c).source); });
    for_workers([&](Worker& worker) { wait_for_all(worker.compute, c, &OnGpu::there); });
    for (std::uint64_t first = 0; first < workers_.back().made.count(); first += window_rows)
      for_workers([&](Worker& worker) {
        const std::uint64_t rows = std::min(window_rows, worker.made.count() - std::min(first, worker.made.count()));
        if (rows == 0) return;
        const MemoryView made = worker.column(c).made.slice(first * bytes, rows * bytes);
        gather(runtime_, worker.compute, width, rows_.width, pieces,
               worker.rows.slice(first * index_bytes, rows * index_bytes), made);
        send(worker, to, (worker.made.begin + first) * bytes, made);
      });
  }

  void gather_bytes(std::size_t c) {
    runtime_.set_phase("gather");
    const std::vector<StringPiece> pieces = string_pieces(c);
    const std::uint64_t width = offset_bytes(columns_[c]);
    for_workers([&](Worker& worker) {
      OnGpu& mine = worker.column(c);
      const bool is_last = &worker == &workers_.back();
      if (worker.made.count() == 0 && !is_last) return;
      const std::uint64_t numbers = worker.made.count() + (is_last ? 1 : 0);
      shift_offsets(runtime_, worker.compute, 8, mine.sums.slice(0, 8 * numbers), static_cast<int>(width),
                    mine.made.slice(0, width * numbers), mine.strings_begin);
      send(worker, results_[c].offsets->data(), worker.made.begin * width, mine.made.slice(0, width * numbers));
      wait_for_all(worker.compute, c, &OnGpu::there);
      gather_strings(runtime_, worker.compute, rows_.width, pieces, worker.rows.view(), mine.sums, mine.strings);
      send(worker, results_[c].values->data(), mine.strings_begin, mine.strings);
    });
  }

  Runtime& runtime_;
  std::span<const ChunkedColumn> columns_;
  const RowNumbers& rows_;
  std::vector<GatheredColumn>& results_;
  std::uint64_t source_rows_;
  std::vector<Worker> workers_;
};

}  // namespace

bool gathers_on_gpus(const ChunkedColumn& column) {
  if (column.has_strings()) return true;
  const int width = column.width;
  return column.layout == Layout::fixed && (width == 1 || width == 2 || width == 4 || width == 8 || width == 16);
}

std::vector<GatheredColumn> gather_on_gpus(Runtime& runtime, std::span<const int> gpus,
                                           std::span<const ChunkedColumn> columns, const RowNumbers& rows) {
  std::vector<GatheredColumn> results(columns.size());
  if (columns.empty()) return results;
  std::vector<std::size_t> on_gpus, on_cores;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const bool goes = gathers_on_gpus(columns[c]) && rows.count > 0 && columns[c].count() > 0;
    (goes ? on_gpus : on_cores).push_back(c);
  }
  if (!runtime.peers_can_read(gpus))
    throw UsageError("these GPUs cannot read each other's memory; gather on one of them, or on the cores");
  const bool has_data = !runtime.estimating();
  if (has_data) check_rows(rows.data, rows.width, rows.count, columns.front().count());
  const auto gather_rest = [&] {
    if (!has_data) return;
    for (const std::size_t c : on_cores) results[c] = gather_rows(columns[c], rows.data, rows.width, rows.count);
    for (const std::size_t c : on_gpus) gather_validity(columns[c], rows.data, rows.width, rows.count, results[c]);
  };
  if (on_gpus.empty()) {
    gather_rest();
    return results;
  }
  for (const std::size_t c : on_gpus) results[c].count = rows.count;
  run_or_abandon(runtime, [&] {
    ColumnGather gather(runtime, gpus, columns, rows, results);
    gather.bring_rows();
    bool is_first = true;
    for (const auto& turn : gather.turns(on_gpus)) {
      gather.enqueue(turn);
      if (std::exchange(is_first, false)) gather_rest();
      gather.finish_turn();
    }
  });
  return results;
}

}  // namespace linkwise
