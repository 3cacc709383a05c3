#include "linkwise/transfer/gather_workers.hpp"

#include <algorithm>

namespace linkwise {
namespace {

constexpr std::uint64_t unit = 64;  // rows, so that no byte of bits and no line of elements is written by two GPUs

}  // namespace

ColumnOnGpu& GatherWorker::column(std::size_t c) {
  return std::ranges::find(columns, c, &std::pair<std::size_t, ColumnOnGpu>::first)->second;
}

GatherWorkers::GatherWorkers(Runtime& runtime, std::span<const int> gpus, std::span<const ChunkedColumn> columns,
                             std::vector<bool> nullable, const RowNumbers& rows, std::vector<GatheredColumn>& results)
    : runtime(runtime), columns(columns), nullable(std::move(nullable)), rows(rows), results(results) {
  const auto width = static_cast<std::uint64_t>(rows.width);
  for (const int gpu : gpus) {
    const Place place = Place::gpu(gpu);
    GatherWorker worker;
    worker.in = runtime.stream(place, "in");
    worker.compute = runtime.stream(place, "compute");
    worker.out = runtime.stream(place, "out");
    worker.source = share_of(columns.front().count(), each.size(), gpus.size());
    worker.made = share_of(rows.count, each.size(), gpus.size(), unit);
    worker.rows = runtime.allocate(place, worker.made.count() * width, "row numbers");
    each.push_back(std::move(worker));
  }
  runtime.set_phase("HtoD");
  for (GatherWorker& worker : each)
    copy_in(worker, worker.rows.view(), rows.data, worker.made.begin * width, rows.pageable);
}

GatherBytes GatherWorkers::need_of(std::size_t c, const GatherWorker& worker) const {
  return linkwise::gather_bytes(runtime.kernels(), columns[c], nullable[c], worker.source, worker.made);
}

void GatherWorkers::make_room(const std::vector<std::size_t>& turn) {
  for (GatherWorker& worker : each) {
    std::uint64_t bytes = 0;
    for (const std::size_t c : turn) bytes += need_of(c, worker).known();
    worker.memory = runtime.allocate(worker.in.place, bytes, "columns");
    Carver carver(worker.memory.view());
    for (const std::size_t c : turn) {
      const GatherBytes need = need_of(c, worker);
      ColumnOnGpu column;
      for (const auto& [view, size] : {std::pair{&column.source, need.source},
                                       {&column.offsets, need.offsets},
                                       {&column.raw_offsets, need.raw_offsets},
                                       {&column.made, need.made},
                                       {&column.lengths, need.lengths},
                                       {&column.sums, need.sums},
                                       {&column.scratch, need.scratch},
                                       {&column.valid, need.valid},
                                       {&column.made_valid, need.made_valid}})
        *view = carver.take(size);
      worker.columns.emplace_back(c, column);
    }
  }
}

void GatherWorkers::give_room_back() {
  runtime.synchronize();
  hand_back(runtime, lent_);
  lent_.clear();
  for (GatherWorker& worker : each) {
    worker.strings = {};
    worker.columns.clear();
    worker.memory = {};
  }
}

void GatherWorkers::copy_in(const GatherWorker& worker, const MemoryView& to, const void* from, std::uint64_t offset,
                            bool pageable) {
  if (to.bytes == 0) return;
  runtime.copy(worker.in, to, lent_.emplace_back(host_view(from, offset, to.bytes, pageable)));
}

void GatherWorkers::send(const GatherWorker& worker, std::byte* to, std::uint64_t offset, const MemoryView& from) {
  if (from.bytes == 0) return;
  runtime.set_phase("DtoH");
  runtime.wait(worker.out, runtime.record(worker.compute));
  runtime.copy(worker.out, lent_.emplace_back(host_view(to, offset, from.bytes, /*pageable=*/true)), from);
  runtime.set_phase("gather");
}

void GatherWorkers::wait_for_all(Stream stream, std::size_t c, Event ColumnOnGpu::* event) {
  for (GatherWorker& other : each) runtime.wait(stream, other.column(c).*event);
}

}  // namespace linkwise
