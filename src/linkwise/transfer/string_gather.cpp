#include "linkwise/transfer/string_gather.hpp"

#include <limits>
#include <stdexcept>

#include "linkwise/primitives/matching.hpp"
#include "linkwise/transfer/string_share.hpp"

namespace linkwise {

void StringGather::bring_offsets(std::size_t c) {
  runtime_.set_phase("HtoD");
  for (GatherWorker& worker : workers_.each) {
    ColumnOnGpu& mine = worker.column(c);
    linkwise::bring_offsets(runtime_, worker.in, workers_.columns[c], worker.source, mine.raw_offsets, mine.offsets,
                            copies_in(worker));
    mine.offsets_there = runtime_.record(worker.in);
  }
}

void StringGather::bring_bytes(std::size_t c) {
  for (GatherWorker& worker : workers_.each)
    linkwise::bring_bytes(workers_.columns[c], worker.source, worker.column(c).source, copies_in(worker));
}

std::vector<StringPiece> StringGather::pieces_of(std::size_t c) {
  std::vector<StringPiece> pieces;
  for (GatherWorker& worker : workers_.each)
    if (worker.source.count() > 0) pieces.push_back({worker.column(c).offsets, worker.column(c).source});
  return pieces;
}

void StringGather::find_lengths(std::size_t c) {
  runtime_.set_phase("gather");
  const std::vector<StringPiece> pieces = pieces_of(c);
  for (GatherWorker& worker : workers_.each) {
    if (worker.made.count() == 0) continue;
    ColumnOnGpu& mine = worker.column(c);
    workers_.wait_for_all(worker.compute, c, &ColumnOnGpu::offsets_there);
    gather_lengths(runtime_, worker.compute, workers_.rows.width, pieces, worker.rows.view(), mine.lengths);
    running_sums(runtime_, worker.compute, length_of_string, mine.lengths, mine.sums, mine.scratch);
  }
}

void StringGather::make_room(const std::vector<std::size_t>& strings) {
  const std::size_t num_workers = workers_.each.size();
  std::vector<std::uint64_t> totals(strings.size() * num_workers, 0), expected = totals;
  std::vector<ReadBack> reads;
  const auto at = [&](std::size_t s, std::size_t g) { return s * num_workers + g; };
  for (std::size_t s = 0; s < strings.size(); ++s)
    for (std::size_t g = 0; g < num_workers; ++g) {
      GatherWorker& worker = workers_.each[g];
      if (worker.made.count() == 0) continue;
      expected[at(s, g)] = static_cast<std::uint64_t>(workers_.columns[strings[s]].width) * worker.made.count();
      reads.push_back({worker.compute, worker.column(strings[s]).sums.slice(8 * worker.made.count(), 8),
                       &totals[at(s, g)], &expected[at(s, g)]});
    }
  if (!reads.empty()) runtime_.read_back(reads);
  for (std::size_t g = 0; g < num_workers; ++g) {
    GatherWorker& worker = workers_.each[g];
    std::uint64_t bytes = 0;
    for (std::size_t s = 0; s < strings.size(); ++s) bytes += rounded(totals[at(s, g)]);
    worker.strings = runtime_.allocate(worker.in.place, bytes, "strings");
    Carver carver(worker.strings.view());
    for (std::size_t s = 0; s < strings.size(); ++s) worker.column(strings[s]).strings = carver.take(totals[at(s, g)]);
  }
  for (const std::size_t c : strings) {
    std::uint64_t begin = 0;
    for (GatherWorker& worker : workers_.each) {
      worker.column(c).strings_begin = begin;
      begin += worker.column(c).strings.bytes;
    }
    const bool is_narrow = workers_.columns[c].layout == ChunkedColumn::Layout::strings32;
    if (is_narrow && begin > std::numeric_limits<std::int32_t>::max() && !runtime_.estimating())
      throw std::overflow_error("the strings take more bytes than their offsets count");
    GatheredColumn& result = workers_.results[c];
    result.value_bytes = begin;
    made_[c] = {result.offsets.emplace((workers_.rows.count + 1) * offset_bytes(workers_.columns[c])).data(),
                result.values.emplace(begin).data()};
  }
}

void StringGather::gather(std::size_t c) {
  const std::vector<StringPiece> pieces = pieces_of(c);
  const std::uint64_t width = offset_bytes(workers_.columns[c]);
  const int row_bytes = workers_.rows.width;
  const Made made = made_.at(c);
  for (GatherWorker& worker : workers_.each) {
    if (worker.made.count() == 0) continue;
    ColumnOnGpu& mine = worker.column(c);
    const bool is_last = worker.made.end == workers_.rows.count;
    const std::uint64_t numbers = worker.made.count() + (is_last ? 1 : 0);
    shift_offsets(runtime_, worker.compute, 8, mine.sums.slice(0, 8 * numbers), static_cast<int>(width),
                  mine.made.slice(0, width * numbers), mine.strings_begin);
    workers_.send(worker, made.offsets, worker.made.begin * width, mine.made.slice(0, width * numbers));
    workers_.wait_for_all(worker.compute, c, &ColumnOnGpu::there);
    gather_strings(runtime_, worker.compute, row_bytes, pieces, worker.rows.view(), mine.sums, mine.strings);
    workers_.send(worker, made.values, mine.strings_begin, mine.strings);
  }
}

}  // namespace linkwise
