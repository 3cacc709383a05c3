#include "linkwise/transfer/column_gather.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/transfer/gather_workers.hpp"
#include "linkwise/transfer/string_gather.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

constexpr std::uint64_t window_rows = 4 << 20;  // that are copied out while the next ones are gathered

std::uint64_t count_set(const std::byte* bits, std::uint64_t bytes) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(bits);
  std::uint64_t set = 0;
  for (std::uint64_t w = 0; w < bytes / sizeof *words; ++w) set += static_cast<std::uint64_t>(std::popcount(words[w]));
  return set;
}

class ColumnGather {
 public:
  ColumnGather(Runtime& runtime, std::span<const int> gpus, std::span<const ChunkedColumn> columns,
               std::vector<bool> nullable, const RowNumbers& rows, std::vector<GatheredColumn>& results)
      : runtime_(runtime),
        workers_(runtime, gpus, columns, std::move(nullable), rows, results),
        strings_(workers_),
        columns_(columns),
        rows_(rows),
        results_(results) {}

  // Groups the columns into turns, each of which fits in GPU memory.
  [[nodiscard]] std::vector<std::vector<std::size_t>> turns(const std::vector<std::size_t>& wanted) {
    std::vector<std::vector<std::size_t>> turns;
    std::vector<std::uint64_t> left;
    for (const std::size_t c : wanted) {
      std::vector<std::uint64_t> needed;
      for (const GatherWorker& worker : workers_.each) {
        const GatherBytes need = workers_.need_of(c, worker);
        needed.push_back(need.known() + rounded(need.strings));
      }
      const auto fits = [&] { return std::ranges::equal(needed, left, std::less_equal()); };
      if (turns.empty() || !fits()) {
        left.clear();
        for (const GatherWorker& worker : workers_.each) left.push_back(runtime_.available(worker.in.place));
        if (!fits())
          throw OutOfMemoryError("a column of " + std::to_string(columns_[c].count()) +
                                 " rows does not fit into the GPUs; use more of them, or raise memory_limit");
        turns.emplace_back();
      }
      turns.back().push_back(c);
      for (std::size_t g = 0; g < left.size(); ++g) left[g] -= needed[g];
    }
    return turns;
  }

  // Does not wait for the GPUs, except for the lengths of strings.
  void enqueue(const std::vector<std::size_t>& turn) {
    std::vector<std::size_t> strings, others;
    for (const std::size_t c : turn) (columns_[c].has_strings() ? strings : others).push_back(c);
    // The widest first: the last column is copied out when nothing is copied in any more, so it should be small.
    std::ranges::stable_sort(others, std::greater<>(), [&](std::size_t c) { return columns_[c].width; });
    workers_.make_room(turn);
    std::vector<std::size_t> order = strings;
    order.insert(order.end(), others.begin(), others.end());
    for (const std::size_t c : strings) strings_.bring_offsets(c);
    bring(order.front());
    check_rows();
    for (const std::size_t c : strings) strings_.find_lengths(c);
    strings_.make_room(strings);
    // Copy in only one column ahead: a device's queues are finite, and copies out must not queue behind all copies
    // in.
    for (std::size_t at = 0; at < order.size(); ++at) {
      if (at + 1 < order.size()) bring(order[at + 1]);
      gather(order[at]);
    }
  }

  void finish(const std::vector<std::size_t>& turn) {
    workers_.give_room_back();
    bits_.clear();
    for (const std::size_t c : turn) {
      GatheredColumn& result = results_[c];
      if (!result.validity || runtime_.estimating()) continue;
      result.nulls = result.count - count_set(result.validity->data(), bytes_of_bits(result.count));
      if (result.nulls == 0) result.validity.reset();
    }
  }

 private:
  // Checks the row numbers before they are used, while the first columns are copied in.
  void check_rows() {
    if (runtime_.estimating() || std::exchange(rows_are_checked_, true)) return;
    linkwise::check_rows(rows_.data, rows_.width, rows_.count, columns_.front().count());
  }

  void bring(std::size_t c) {
    runtime_.set_phase("HtoD");
    if (columns_[c].layout == Layout::bits) bring_bits(c, Bits::values, &ColumnOnGpu::source);
    else if (columns_[c].has_strings()) strings_.bring_bytes(c);
    else bring_elements(c);
    if (columns_[c].has_validity()) bring_bits(c, Bits::validity, &ColumnOnGpu::valid);
    for (GatherWorker& worker : workers_.each) worker.column(c).there = runtime_.record(worker.in);
  }

  void bring_elements(std::size_t c) {
    const auto width = static_cast<std::uint64_t>(columns_[c].width);
    for (GatherWorker& worker : workers_.each) {
      std::uint64_t at = 0;
      for (const ChunkPart& part : parts_of(columns_[c], worker.source)) {
        const std::uint64_t bytes = part.rows.count() * width;
        workers_.copy_in(worker, worker.column(c).source.slice(at, bytes), part.chunk->values,
                         (part.chunk->offset + part.rows.begin) * width, part.chunk->pageable);
        at += bytes;
      }
    }
  }

  // Copies all bits to each GPU, whose cache they fit into.
  void bring_bits(std::size_t c, Bits which, MemoryView ColumnOnGpu::* to) {
    const std::byte* from = nullptr;
    if (!runtime_.estimating()) from = bits_.emplace_back(bits_in_one_piece(columns_[c], which)).data();
    for (GatherWorker& worker : workers_.each)
      workers_.copy_in(worker, worker.column(c).*to, from, 0, /*pageable=*/true);
  }

  void gather(std::size_t c) {
    runtime_.set_phase("gather");
    GatheredColumn& result = results_[c];
    if (columns_[c].layout == Layout::bits) {
      gather_bits(c, &ColumnOnGpu::source, &ColumnOnGpu::made, result.values);
      result.value_bytes = bytes_of_bits(result.count);
    } else if (columns_[c].has_strings()) {
      strings_.gather(c);
    } else {
      gather_elements(c);
    }
    if (workers_.nullable[c]) gather_bits(c, &ColumnOnGpu::valid, &ColumnOnGpu::made_valid, result.validity);
  }

  void gather_elements(std::size_t c) {
    const int width = columns_[c].width, row_width = rows_.width;
    const auto bytes = static_cast<std::uint64_t>(width), row_bytes = static_cast<std::uint64_t>(row_width);
    results_[c].value_bytes = rows_.count * bytes;
    std::byte* to = results_[c].values.emplace(results_[c].value_bytes).data();
    std::vector<MemoryView> pieces;
    for (GatherWorker& worker : workers_.each) pieces.push_back(worker.column(c).source);
    for (GatherWorker& worker : workers_.each) workers_.wait_for_all(worker.compute, c, &ColumnOnGpu::there);
    std::uint64_t most = 0;
    for (const GatherWorker& worker : workers_.each) most = std::max(most, worker.made.count());
    for (std::uint64_t first = 0; first < most; first += window_rows)
      for (GatherWorker& worker : workers_.each) {
        const std::uint64_t rows = std::min(window_rows, worker.made.count() - std::min(first, worker.made.count()));
        if (rows == 0) continue;
        const MemoryView made = worker.column(c).made.slice(first * bytes, rows * bytes);
        linkwise::gather(runtime_, worker.compute, width, row_width, pieces,
                         worker.rows.slice(first * row_bytes, rows * row_bytes), made);
        workers_.send(worker, to, (worker.made.begin + first) * bytes, made);
      }
  }

  void gather_bits(std::size_t c, MemoryView ColumnOnGpu::* from, MemoryView ColumnOnGpu::* made,
                   std::optional<HugePageBuffer>& to) {
    to.emplace(bytes_of_bits(rows_.count));
    for (GatherWorker& worker : workers_.each) {
      ColumnOnGpu& mine = worker.column(c);
      runtime_.wait(worker.compute, mine.there);
      linkwise::gather_bits(runtime_, worker.compute, rows_.width, mine.*from, worker.rows.view(), mine.*made);
      workers_.send(worker, to->data(), worker.made.begin / 8, mine.*made);
    }
  }

  Runtime& runtime_;
  GatherWorkers workers_;
  StringGather strings_;
  std::span<const ChunkedColumn> columns_;
  const RowNumbers& rows_;
  bool rows_are_checked_ = false;
  std::vector<GatheredColumn>& results_;
  std::vector<HugePageBuffer> bits_;  // on their way to the GPUs
};

}  // namespace

bool gathers_on_gpus(const ChunkedColumn& column) {
  if (column.layout != Layout::fixed) return true;
  const int width = column.width;
  return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

std::vector<GatheredColumn> gather_on_gpus(Runtime& runtime, std::span<const int> gpus,
                                           std::span<const ChunkedColumn> columns, const RowNumbers& rows) {
  std::vector<GatheredColumn> results(columns.size());
  if (columns.empty()) return results;
  if (!runtime.reach_each_other(gpus))
    throw UsageError("these GPUs cannot read each other's memory; gather on one of them, or on the cores");
  std::vector<std::size_t> on_gpus, on_cores;
  std::vector<bool> nullable;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const bool goes = gathers_on_gpus(columns[c]) && rows.count > 0 && columns[c].count() > 0;
    (goes ? on_gpus : on_cores).push_back(c);
    nullable.push_back(rows.width == 8 || columns[c].has_validity());
    results[c].count = rows.count;
  }
  const auto gather_rest = [&] {
    if (runtime.estimating()) return;
    for (const std::size_t c : on_cores) results[c] = gather_rows(columns[c], rows.data, rows.width, rows.count);
  };
  if (on_gpus.empty()) {
    gather_rest();
    return results;
  }
  std::optional<ColumnGather> gather;  // owns bits in host memory that must outlive all copies
  run_or_abandon(runtime, [&] {
    gather.emplace(runtime, gpus, columns, std::move(nullable), rows, results);
    bool is_first = true;
    for (const auto& turn : gather->turns(on_gpus)) {
      gather->enqueue(turn);
      if (std::exchange(is_first, false)) gather_rest();
      gather->finish(turn);
    }
  });
  return results;
}

}  // namespace linkwise
