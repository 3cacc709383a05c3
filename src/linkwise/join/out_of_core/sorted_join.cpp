#include "linkwise/join/out_of_core/sorted_join.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/join/out_of_core/materialise.hpp"
#include "linkwise/join/out_of_core/range_buffers.hpp"
#include "linkwise/join/out_of_core/sorted_side.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {
namespace {

constexpr std::size_t slots_of_gpu = 3;           // one pair is copied in, one is probed, one is spare
constexpr std::uint64_t most_pairs_of_gpu = 32;   // more do not overlap better; each costs a search in host memory
constexpr std::uint64_t worth_a_pair = 32 << 20;  // bytes of a pair that are enough to keep a link busy
constexpr std::uint64_t least_pairs_of_gpu = 3;   // so that there is something to overlap

class SortedJoin {
 public:
  SortedJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, bool wants_keys)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        options_{.verify = input.verify, .as_joined = true},
        left_(runtime, plan, input.left, input.left_presorted, options_),
        right_(runtime, plan, input.right, input.right_presorted, options_),
        router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
        wants_keys_(wants_keys),
        left_probes_(left_probes(input)),
        sums_(!wants_keys && sums_values(input)) {
    left_.use(runtime, router_, options_, sums_);
    right_.use(runtime, router_, options_, sums_);
  }

  JoinTotals totals() {
    JoinCounts counts;
    for (const Notes& notes : join_pairs())
      counts += counts_of(left_probes_, notes.forward, input_.kind == JoinKind::full ? notes.backward : MatchTotals{});
    for (const PairOfRanges& key : pairs_.taken_out) counts += counts_of_key(key);
    runtime_.synchronize();
    return totals_of(input_.kind, counts, input_.left.count, input_.right.count);
  }

  std::uint64_t rows(const MakeOutputs& outputs) {
    KeyBlocks keys = matched_keys();
    std::uint64_t rows = totals_of(input_.kind, expected_counts(input_), input_.left.count, input_.right.count).rows;
    std::optional<RowWriter> writer;
    if (!runtime_.estimating()) {
      writer.emplace(std::move(keys), input_.kind, columns_of(left_, input_.left), columns_of(right_, input_.right));
      rows = writer->rows();
    }
    const JoinOutputs to = outputs(rows);
    const std::vector<MemoryView> written = views_of(to, input_, rows);
    std::uint64_t bytes = 0;
    for (const MemoryView& view : written) bytes += view.bytes;
    write_on_cores(bytes, written, [&] { writer->write(to); });
    return rows;
  }

  void ranges(const MakeRangeArrays& arrays) {
    KeyBlocks keys = matched_keys();
    if (runtime_.estimating()) return write_on_cores(8 * (input_.left.count + input_.right.count), {}, {});
    const RangeWriter writer(std::move(keys), columns_of(left_, input_.left), columns_of(right_, input_.right));
    const RangeArrays to = arrays(writer.sizes());
    write_on_cores(8 * (writer.sizes().left_rows + writer.sizes().right_rows), views_of(to, writer.sizes()),
                   [&] { writer.write(to); });
  }

 private:
  // Room for a pair.
  struct Slot {
    Buffer left, right, left_raw, right_raw;
    Event free;
  };
  struct Worker {
    Stream in, compute;
    std::vector<Slot> slots;
    Buffer spare, sums, scratch, notes;
  };
  // The results of a pair's probes, or of the search for its ranges.
  struct Notes {
    MatchTotals forward, backward;
    RangeTotals ranges;
    std::uint64_t left_violations = 0, right_violations = 0;
  };

  std::vector<Notes> join_pairs() {
    cut();
    make_room();
    for (std::size_t pair = 0; pair < pairs_.parts.size(); ++pair) join(pair);
    return read_notes();
  }

  void cut() {
    runtime_.set_phase("partition");
    const std::uint64_t gpus = plan_.sort.gpus.size(), rows = input_.left.count + input_.right.count;
    const std::uint64_t row_bytes = std::max(left_.type().bytes(), right_.type().bytes());
    const std::uint64_t fit = rows * row_bytes / gpus / std::max<std::uint64_t>(plan_.pair_bytes, 1) + 1;
    const std::uint64_t overlap = std::min(rows * row_bytes / gpus / worth_a_pair + 1, most_pairs_of_gpu);
    const std::uint64_t parts = gpus * std::max({fit, overlap, least_pairs_of_gpu});
    if (!runtime_.estimating()) {
      for (const SortedSide* side : {&left_, &right_})
        for (const MemoryView& view : side->views()) runtime_.host_reads(view, "cuts sorted sides into pairs");
      pairs_ = cut_sorted(left_.runs(), right_.runs(), parts);
      return;
    }
    for (std::uint64_t p = 0; p < parts; ++p) {  // an estimate has no data: equal slices
      PairOfRanges& pair = pairs_.parts.emplace_back();
      const auto slice = [&](const SortedRuns& side, std::vector<RunRange>& to) {
        for (const HostRun& run : side.runs) to.push_back({run.count * p / parts, run.count * (p + 1) / parts});
      };
      slice(left_.runs(), pair.left);
      slice(right_.runs(), pair.right);
    }
  }

  void make_room() {
    std::uint64_t lefts = 0, rights = 0;
    const Kernels& kernels = runtime_.kernels();
    for (const PairOfRanges& pair : pairs_.parts) {
      lefts = std::max(lefts, rows_in(pair.left));
      rights = std::max(rights, rows_in(pair.right));
    }
    const std::uint64_t most = std::max(lefts, rights);
    std::uint64_t scratch =
        wants_keys_ ? find_ranges_scratch_bytes(kernels, lefts, rights) : matching_scratch_bytes(kernels, most);
    std::uint64_t spare = 0;
    for (const SortedSide* side : {&left_, &right_}) {
      if (side->is_merged()) continue;
      scratch = std::max(scratch, local_sort_scratch_bytes(kernels, side->type(), most));
      spare = std::max(spare, record_bytes(side->type(), most));
    }
    for (const int gpu : plan_.sort.gpus) {
      const Place place = Place::gpu(gpu);
      Worker& worker = workers_.emplace_back();
      worker.in = runtime_.stream(place, "in");
      worker.compute = runtime_.stream(place, "compute");
      const auto allocate = [&](std::uint64_t bytes, const char* label) {
        return runtime_.allocate(place, bytes, label);
      };
      worker.notes = allocate(sizeof(Notes) * pairs_.parts.size() / plan_.sort.gpus.size(), "totals");
      worker.spare = allocate(spare, "spare records");
      worker.sums = allocate(sums_ ? 8 * (most + 1) : 0, "running sums");
      worker.scratch = allocate(scratch, "scratch");
      for (std::size_t s = 0; s < slots_of_gpu; ++s)
        worker.slots.push_back({allocate(record_bytes(left_.type(), lefts), "left pair"),
                                allocate(record_bytes(right_.type(), rights), "right pair"),
                                allocate(2 * lefts, "left native keys"),
                                allocate(2 * rights, "right native keys"),
                                {}});
    }
    if (wants_keys_) room_ = std::make_unique<RangeBuffers>(runtime_, pairs_);
    left_.choose_sort(runtime_, workers_.front().compute, lefts);
    right_.choose_sort(runtime_, workers_.front().compute, rights);
  }

  // Each GPU has consecutive pairs; successive calls go to the GPUs in turn.
  void join(std::size_t number) {
    const std::size_t gpus = workers_.size(), of_gpu = pairs_.parts.size() / gpus;
    const std::size_t gpu = number % gpus, round = number / gpus;
    const PairOfRanges& pair = pairs_.parts[gpu * of_gpu + round];
    Worker& worker = workers_[gpu];
    Slot& slot = worker.slots[round % slots_of_gpu];
    const Records lefts = records_in(slot.left.view(), left_.type(), rows_in(pair.left));
    const Records rights = records_in(slot.right.view(), right_.type(), rows_in(pair.right));
    runtime_.set_phase("join");  // with its copies, as in join25 §4.3
    runtime_.wait(worker.in, slot.free);
    left_.copy_in(worker.in, pair.left, lefts, slot.left_raw.view());
    right_.copy_in(worker.in, pair.right, rights, slot.right_raw.view());
    runtime_.wait(worker.compute, runtime_.record(worker.in));
    const MemoryView notes = worker.notes.slice(sizeof(Notes) * round, sizeof(Notes));
    left_.encode(worker.compute, pair.left, lefts, slot.left_raw.view());
    put_in_order(worker, left_, lefts, notes.slice(offsetof(Notes, left_violations), 8));
    right_.encode(worker.compute, pair.right, rights, slot.right_raw.view());
    put_in_order(worker, right_, rights, notes.slice(offsetof(Notes, right_violations), 8));
    if (wants_keys_) find_keys(worker, gpu * of_gpu + round, lefts, rights, notes);
    else probe_pair(worker, lefts, rights, notes);
    slot.free = runtime_.record(worker.compute);
  }

  // Writes the ranges directly into host memory (join25 §3.3.3).
  void find_keys(const Worker& worker, std::size_t pair, const Records& lefts, const Records& rights,
                 const MemoryView& notes) const {
    const std::uint64_t expected = expected_counts(input_).pairs / pairs_.parts.size();
    find_ranges(runtime_, worker.compute,
                {lefts.type.key, lefts.keys, rights.keys, room_->ranges(pair, expected), room_->tiles(pair),
                 plan_.searches_each_key},
                worker.scratch.view(), notes.slice(offsetof(Notes, ranges), sizeof(RangeTotals)));
  }

  // Sorts the slices of several runs together, and checks the order if that is wanted.
  void put_in_order(const Worker& worker, const SortedSide& side, const Records& records,
                    const MemoryView& violations) const {
    if (!side.is_merged() && records.count > 0) {
      const Records spare = records_in(worker.spare.view(), side.type(), records.count);
      sort_locally(runtime_, worker.compute, records, spare,
                   {{0, side.type().key_bits()}, side.sorts_by_msd(), LocalSort::Into::first}, worker.scratch.view());
    }
    if (input_.verify || side.is_claimed())
      check_order(runtime_, worker.compute, records.type.key, records.keys, violations);
  }

  void probe_pair(const Worker& worker, const Records& lefts, const Records& rights, const MemoryView& notes) const {
    const Records& probing = left_probes_ ? lefts : rights;
    const Records& build = left_probes_ ? rights : lefts;
    Probe forward = probe_of(probing, build);
    if (sums_) {
      forward.values = probing.values;
      forward.value_type = {static_cast<int>(probing.type.value_bytes()), is_signed(left_probes_)};
      forward.build_sums = worker.sums.slice(0, 8 * (build.count + 1));
      running_sums(runtime_, worker.compute, {static_cast<int>(build.type.value_bytes()), is_signed(!left_probes_)},
                   build.values, forward.build_sums, worker.scratch.view());
    }
    probe(runtime_, worker.compute, forward, worker.scratch.view(),
          notes.slice(offsetof(Notes, forward), sizeof(MatchTotals)));
    if (input_.kind != JoinKind::full) return;
    probe(runtime_, worker.compute, probe_of(build, probing), worker.scratch.view(),
          notes.slice(offsetof(Notes, backward), sizeof(MatchTotals)));
  }

  [[nodiscard]] bool is_signed(bool left) const {
    return left ? input_.left_values_signed : input_.right_values_signed;
  }

  std::vector<Notes> read_notes() {
    const std::size_t of_gpu = pairs_.parts.size() / workers_.size();
    std::vector<Notes> notes(pairs_.parts.size()), expectation(notes);
    const JoinCounts counts = expected_counts(input_);
    for (Notes& expected : expectation) {
      expected.forward = expected_totals(counts, left_probes_, notes.size());
      expected.backward = expected_totals(counts, !left_probes_, notes.size());
    }
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < workers_.size(); ++g)
      reads.push_back({workers_[g].compute, workers_[g].notes.view(), &notes[g * of_gpu], &expectation[g * of_gpu]});
    runtime_.read_back(reads);
    check_claims(notes);
    return notes;
  }

  // Checks that each pair is in order, and that consecutive pairs are in order too.
  void check_claims(const std::vector<Notes>& notes) const {
    if (runtime_.estimating()) return;
    for (const bool is_left : {true, false}) {
      const SortedSide& side = is_left ? left_ : right_;
      const bool in_order = std::ranges::all_of(
          notes, [&](const Notes& note) { return (is_left ? note.left_violations : note.right_violations) == 0; });
      if (side.is_claimed() && (!in_order || !is_in_order(pairs_, side.runs(), is_left)))
        throw UsageError(std::string("the ") + (is_left ? "left" : "right") +
                         " side is not presorted: keys are out of order");
      if (!side.is_claimed() && input_.verify && !in_order)
        throw CorruptDataError("sorted runs are out of order; check the host's memory and the links, and run again");
    }
  }

  KeyBlocks matched_keys() {
    std::vector<std::uint64_t> ranges;
    for (const Notes& notes : join_pairs()) ranges.push_back(notes.ranges.ranges);
    runtime_.synchronize();
    for (const MemoryView& view : room_->views()) runtime_.host_reads(view, "reads the ranges of keys");
    return runtime_.estimating() ? KeyBlocks() : room_->keys(ranges);
  }

  // Reads and writes are sequential, so the cost is estimated as that of a copy.
  void write_on_cores(std::uint64_t bytes, std::vector<MemoryView> written, const std::function<void()>& write) {
    runtime_.set_phase("materialise");
    Work work;
    work.microseconds = static_cast<double>(bytes) / (1e3 * runtime_.machine().host.local_copy_gb_per_s);
    const Stream cores = runtime_.stream(Place::host(), "cores");
    std::vector<MemoryView> read = room_->views();
    for (const SortedSide* side : {&left_, &right_})
      for (const MemoryView& view : side->views()) read.push_back(view);
    runtime_.enqueue(cores, {"materialise", std::move(read), written, work, [&write](void*) { write(); }});
    runtime_.synchronize();
    hand_back(runtime_, written);
  }

  static SortedColumns columns_of(const SortedSide& side, const HostColumns& columns) {
    return {columns.key_type,
            {side.merged().keys, side.merged().values, side.merged().count},
            static_cast<std::uint64_t>(columns.value_width)};
  }

  // The counts of a key that was taken out of the pairs.
  [[nodiscard]] JoinCounts counts_of_key(const PairOfRanges& key) const {
    const std::uint64_t lefts = rows_in(key.left), rights = rows_in(key.right);
    JoinCounts counts{lefts * rights, rights > 0 ? lefts : 0, lefts > 0 ? rights : 0, 0, 0};
    if (!sums_) return counts;
    counts.left_sum = rights * left_.sum(key.left, input_.left_values_signed);
    counts.right_sum = lefts * right_.sum(key.right, input_.right_values_signed);
    return counts;
  }

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  SortOptions options_;
  SortedSide left_, right_;
  Router router_;
  bool wants_keys_, left_probes_, sums_;
  MergePathPartitions pairs_;
  std::unique_ptr<RangeBuffers> room_;
  std::vector<Worker> workers_;
};

// Ranges refer to rows of a single run, so runs are merged first.
JoinPlan merging(JoinPlan plan) {
  plan.merges_runs = true;
  return plan;
}

}  // namespace

JoinTotals sorted_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  return SortedJoin(runtime, plan, input, /*wants_keys=*/false).totals();
}

std::uint64_t sorted_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs) {
  return SortedJoin(runtime, merging(plan), input, /*wants_keys=*/true).rows(outputs);
}

void sorted_ranges(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeRangeArrays& arrays) {
  SortedJoin(runtime, merging(plan), input, /*wants_keys=*/true).ranges(arrays);
}

}  // namespace linkwise
