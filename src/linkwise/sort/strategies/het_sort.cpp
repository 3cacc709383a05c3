#include "linkwise/sort/strategies/het_sort.hpp"

#include <algorithm>
#include <memory>

#include "linkwise/device/arena.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/merge/run_merge.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

constexpr int swap_pieces = 8;  // of an in-place swap: one is copied out while the one before it is overwritten

std::uint64_t rounded(std::uint64_t bytes) { return align_up(bytes, device_alignment); }

// A buffer holds a chunk's records and, behind them, the native bytes of keys that are narrow.
std::uint64_t buffer_bytes(RecordType type, std::uint64_t records, bool is_narrow) {
  return rounded(record_bytes(type, records)) + (is_narrow ? rounded(records * type.key_bytes() / 2) : 0);
}

std::uint64_t share_of(const SortPlan& plan, std::uint64_t records) {
  return (records + plan.gpus.size() - 1) / plan.gpus.size();
}

struct Range {
  std::uint64_t begin, end;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
};

class HetSort {
 public:
  HetSort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t count, const SortOptions& options)
      : runtime_(runtime),
        plan_(plan),
        io_(io),
        type_(io.record_type()),
        count_(count),
        at_once_(plan.chunkset_records == 0 ? count : std::min(count, plan.chunkset_records)),
        groups_((count + at_once_ - 1) / at_once_),
        verify_(options.verify) {
    if (plan.het_buffers != 2 && plan.het_buffers != 3)
      throw UsageError("het sorts with 2 or 3 buffers, not " + std::to_string(plan.het_buffers));
    const std::uint64_t share = share_of(plan, at_once_);
    const std::uint64_t scratch = local_sort_scratch_bytes(runtime.kernels(), type_, share);
    for (const int gpu : plan.gpus) {
      const Place place = Place::gpu(gpu);
      runtime.reserve(place,
                      het_bytes_per_gpu(runtime.kernels(), plan, type_, at_once_, io.is_narrow()) + numbers_bytes());
      auto worker = std::make_unique<Worker>();
      worker->in = runtime.stream(place, "in");
      worker->compute = runtime.stream(place, "compute");
      worker->out = runtime.stream(place, "out");
      for (int b = 0; b < plan.het_buffers; ++b)
        worker->buffers.push_back(runtime.allocate(place, buffer_bytes(type_, share, io.is_narrow()), "chunk"));
      worker->scratch = runtime.allocate(place, scratch, "scratch");
      worker->numbers = runtime.allocate(place, numbers_bytes(), "verification");
      workers_.push_back(std::move(worker));
    }
    by_msd_ = keys_suit_msd_sort(runtime, io.key_type(), options.descending,
                                 {{workers_.front()->compute, io.host_keys(0, count)}}, type_, share);
  }

  void run(const HostOutputs& output) {
    const Buffer memory = runtime_.allocate(Place::host(), record_bytes(type_, count_), "runs");
    const Buffer merged = runtime_.allocate(Place::host(), eager() ? record_bytes(type_, count_) : 0, "merged runs");
    if (eager()) merged_ = records_in(merged.view(), type_, count_);
    (void)make_runs(memory.view());
    runtime_.set_phase("merge");
    merge_into_output(runtime_, io_, final_runs_, output);
  }

  // Makes one run for each chunk or, if merged eagerly, for each group of chunks except the last.
  const std::vector<Records>& make_runs(const MemoryView& memory) {
    runs_ = records_in(memory, type_, count_);
    for (std::size_t g = 0; g < workers_.size(); ++g) copy_in(g, 0, 0, {});
    for (std::uint64_t group = 0; group < groups_; ++group) {
      for (std::size_t g = 0; g < workers_.size(); ++g) sort_chunk(g, group);
      for (std::size_t g = 0; g < workers_.size(); ++g) {
        if (plan_.het_buffers == 2) copy_both_ways(g, group);
        else swap_in_place(g, group);
      }
      if (plan_.het_buffers == 2) collect_runs(group);
      else if (group > 0) collect_runs(group - 1);
    }
    if (plan_.het_buffers == 3) {
      for (std::size_t g = 0; g < workers_.size(); ++g) copy_out(g, groups_ - 1, workers_[g]->sorted);
      collect_runs(groups_ - 1);
    }
    for (const auto& worker : workers_) runtime_.wait(runtime_.record(worker->out));
    // There is no wait for eager merges: the final merge follows them on their stream.
    if (verify_) check_results();  // only now: these small copies would queue up behind the large ones
    return final_runs_;
  }

 private:
  enum Number { sum_in, sum_out, violations, num_numbers };  // for each chunk

  struct Worker {
    Stream in, compute, out;
    std::vector<Buffer> buffers;
    Buffer scratch, numbers;
    int holding = 0;       // the buffer with the chunk to sort next
    int sorted = -1;       // the buffer with the chunk that was sorted last
    int previous = -1;     // with three buffers: the one that holds the chunk sorted before that
    int spare = -1;        // the other buffer of the last sort
    Event arrived;         // the chunk to sort next has been copied in
    Event ready;           // the last sort is done
    Event previous_ready;  // the sort before it is done
  };

  [[nodiscard]] bool eager() const { return plan_.eager_merge && groups_ > 1; }
  [[nodiscard]] std::uint64_t numbers_bytes() const { return 8 * num_numbers * groups_; }
  [[nodiscard]] MemoryView number(std::size_t g, std::uint64_t group, int which) const {
    return workers_[g]->numbers.slice(8 * (num_numbers * group + static_cast<std::uint64_t>(which)), 8);
  }

  [[nodiscard]] Range group_rows(std::uint64_t group) const {
    return {group * at_once_, std::min(count_, (group + 1) * at_once_)};
  }
  [[nodiscard]] Range rows_of(std::size_t g, std::uint64_t group) const {
    const Range all = group_rows(group);
    const std::uint64_t gpus = workers_.size();
    return {all.begin + all.count() * g / gpus, all.begin + all.count() * (g + 1) / gpus};
  }
  // Chunks of any size have the same layout in a buffer, so that one can replace another piece by piece.
  [[nodiscard]] Records in_buffer(std::size_t g, int buffer, std::uint64_t count) const {
    const MemoryView view = workers_[g]->buffers[static_cast<std::size_t>(buffer)].view();
    return records_in(view, type_, share_of(plan_, at_once_)).slice(0, count);
  }
  [[nodiscard]] MemoryView native_in_buffer(std::size_t g, int buffer, std::uint64_t count) const {
    const std::uint64_t records_end = rounded(record_bytes(type_, share_of(plan_, at_once_)));
    const std::uint64_t bytes = io_.is_narrow() ? count * io_.native_key_bytes() : 0;
    return workers_[g]->buffers[static_cast<std::size_t>(buffer)].slice(records_end, bytes);
  }

  // Piece p of a chunk, one of `pieces`. Chunks may differ in size by a record, but their pieces line up.
  [[nodiscard]] Range piece(std::uint64_t records, std::uint64_t p, std::uint64_t pieces) const {
    const std::uint64_t share = share_of(plan_, at_once_);
    return {std::min(records, share * p / pieces), std::min(records, share * (p + 1) / pieces)};
  }

  // Copies a group's chunk in: a piece after each event of `pieces_free` or, if there are none, all at once.
  void copy_in(std::size_t g, std::uint64_t group, int buffer, const std::vector<Event>& pieces_free) {
    Worker& worker = *workers_[g];
    const Range rows = rows_of(g, group);
    const Records records = in_buffer(g, buffer, rows.count());
    const MemoryView native = native_in_buffer(g, buffer, rows.count());
    const std::uint64_t width = io_.is_narrow() ? io_.native_key_bytes() : 0;
    const std::uint64_t pieces = std::max<std::uint64_t>(pieces_free.size(), 1);
    runtime_.set_phase("HtoD");
    for (std::uint64_t p = 0; p < pieces; ++p) {
      const Range part = piece(rows.count(), p, pieces);
      if (!pieces_free.empty()) runtime_.wait(worker.in, pieces_free[p]);
      io_.copy_in(worker.in, rows.begin + part.begin, records.slice(part.begin, part.count()),
                  native.slice(part.begin * width, part.count() * width));
    }
    worker.arrived = runtime_.record(worker.in);
    worker.holding = buffer;
  }

  // Copies a sorted chunk to its run; returns an event for each piece.
  std::vector<Event> copy_out(std::size_t g, std::uint64_t group, int buffer, std::uint64_t pieces = 1) {
    Worker& worker = *workers_[g];
    const Range rows = rows_of(g, group);
    const Records records = in_buffer(g, buffer, rows.count());
    runtime_.set_phase("DtoH");
    runtime_.wait(worker.out, buffer == worker.sorted ? worker.ready : worker.previous_ready);
    std::vector<Event> out;
    for (std::uint64_t p = 0; p < pieces; ++p) {
      const Range part = piece(rows.count(), p, pieces);
      io_.router().copy(worker.out, runs_.slice(rows.begin + part.begin, part.count()),
                        records.slice(part.begin, part.count()));
      out.push_back(runtime_.record(worker.out));
    }
    return out;
  }

  void sort_chunk(std::size_t g, std::uint64_t group) {
    Worker& worker = *workers_[g];
    const Range rows = rows_of(g, group);
    worker.previous = worker.sorted >= 0 ? worker.sorted : 2;  // the third of three buffers is free at first
    int auxiliary = 0;
    while (auxiliary == worker.holding || (plan_.het_buffers == 3 && auxiliary == worker.previous)) ++auxiliary;
    const Records records = in_buffer(g, worker.holding, rows.count());
    runtime_.set_phase("sort");
    runtime_.wait(worker.compute, worker.arrived);
    // With two buffers, the previous chunk is copied out of the auxiliary one.
    if (plan_.het_buffers == 2) runtime_.wait(worker.compute, runtime_.record(worker.out));
    io_.encode_rows(worker.compute, rows.begin, records, native_in_buffer(g, worker.holding, rows.count()));
    if (verify_) checksum(runtime_, worker.compute, records, number(g, group, sum_in));
    const Records sorted = sort_locally(runtime_, worker.compute, records, in_buffer(g, auxiliary, rows.count()),
                                        {{0, type_.key_bits()}, by_msd_}, worker.scratch.view());
    if (verify_) {
      checksum(runtime_, worker.compute, sorted, number(g, group, sum_out));
      check_order(runtime_, worker.compute, type_.key, sorted.keys, number(g, group, violations));
    }
    const bool in_auxiliary = sorted.keys.data != records.keys.data;
    worker.sorted = in_auxiliary ? auxiliary : worker.holding;
    worker.spare = in_auxiliary ? worker.holding : auxiliary;
    worker.previous_ready = worker.ready;
    worker.ready = runtime_.record(worker.compute);
  }

  // 2n: the sorted chunk is copied out of one buffer while the next chunk is copied into the other.
  void copy_both_ways(std::size_t g, std::uint64_t group) {
    copy_out(g, group, workers_[g]->sorted);
    if (group + 1 == groups_) return;
    runtime_.wait(workers_[g]->in, workers_[g]->ready);
    copy_in(g, group + 1, workers_[g]->spare, {});
  }

  // 3n: while this group's chunk is sorted, the previous group's chunk is copied out of the third buffer, and the
  // next group's chunk into it.
  void swap_in_place(std::size_t g, std::uint64_t group) {
    std::vector<Event> pieces_free;
    if (group > 0) pieces_free = copy_out(g, group - 1, workers_[g]->previous, swap_pieces);
    if (group + 1 < groups_) copy_in(g, group + 1, workers_[g]->previous, pieces_free);
  }

  // Collects the runs of a group that is being copied out. With eager merging, also enqueues their merge.
  void collect_runs(std::uint64_t group) {
    std::vector<Records> runs;
    for (std::size_t g = 0; g < workers_.size(); ++g) {
      const Range rows = rows_of(g, group);
      if (rows.count() > 0) runs.push_back(runs_.slice(rows.begin, rows.count()));
    }
    if (!eager() || group + 1 == groups_) {
      final_runs_.insert(final_runs_.end(), runs.begin(), runs.end());
      return;
    }
    runtime_.set_phase("eager merge");
    for (const auto& worker : workers_) runtime_.wait(merge_stream(runtime_), runtime_.record(worker->out));
    const Range rows = group_rows(group);
    final_runs_.push_back(merged_.slice(rows.begin, rows.count()));
    enqueue_merge(runtime_, runs, final_runs_.back());
  }

  // Checks every chunk on its own; the order across chunks is the result of the merge.
  void check_results() {
    runtime_.set_phase("verify");
    std::vector<std::vector<std::uint64_t>> numbers(workers_.size(), std::vector<std::uint64_t>(num_numbers * groups_));
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < workers_.size(); ++g)
      reads.push_back({workers_[g]->compute, workers_[g]->numbers.view(), numbers[g].data()});
    runtime_.read_back(reads);
    for (std::size_t g = 0; g < workers_.size(); ++g)
      for (std::uint64_t group = 0; group < groups_; ++group) {
        const std::uint64_t* of_chunk = &numbers[g][num_numbers * group];
        ResultCheck check(type_.key);
        check.came_in(of_chunk[sum_in]);
        check.came_out(Place::gpu(plan_.gpus[g]), {of_chunk[sum_out], of_chunk[violations]});
        check.finish();
      }
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  const HostIo& io_;
  RecordType type_;
  std::uint64_t count_, at_once_, groups_;
  bool verify_;
  bool by_msd_ = false;  // how chunks are sorted
  std::vector<std::unique_ptr<Worker>> workers_;
  Records runs_, merged_;
  std::vector<Records> final_runs_;
};

}  // namespace

std::uint64_t het_bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t records,
                                bool is_narrow) {
  const std::uint64_t share = share_of(plan, records);
  return static_cast<std::uint64_t>(plan.het_buffers) * buffer_bytes(type, share, is_narrow) +
         rounded(local_sort_scratch_bytes(kernels, type, share)) + bytes_to_look_at_keys(kernels, type) + 4096;
}

std::vector<Records> het_sort_into_runs(Runtime& runtime, SortPlan plan, const HostIo& io, std::uint64_t count,
                                        const MemoryView& memory, const SortOptions& options) {
  plan.eager_merge = false;
  return HetSort(runtime, plan, io, count, options).make_runs(memory);
}

void het_sort(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::uint64_t count, const HostOutputs& output,
              const SortOptions& options) {
  HetSort(runtime, plan, io, count, options).run(output);
}

}  // namespace linkwise
