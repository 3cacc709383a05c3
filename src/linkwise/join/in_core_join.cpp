#include "linkwise/join/in_core_join.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/join/join_arrival.hpp"
#include "linkwise/join/join_output.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {
namespace {

RecordType type_of(const HostColumns& columns) { return {key_width(columns.key_type), columns.value_width}; }

constexpr std::size_t most_passing = 4;  // batches on the GPUs: the first ones wait until the other side is sorted

// What both ways of joining have: streams, columns, memory to sort with.
class InCoreJoin {
 public:
  InCoreJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
        options_{false, input.verify},
        left_io_(runtime, router_, input.left, options_),
        right_io_(runtime, router_, input.right, options_) {
    if (input.left.key_type != input.right.key_type) throw UsageError("the keys of the two sides differ in type");
    check_gpus(runtime.machine(), plan.sort);
    for (const int gpu : plan.sort.gpus) {
      compute_.push_back(runtime.stream(Place::gpu(gpu), "compute"));
      sorting_.push_back(runtime.stream(Place::gpu(gpu), "sort", Priority::background));
    }
  }

 protected:
  [[nodiscard]] std::size_t gpus() const { return compute_.size(); }
  [[nodiscard]] const Kernels& kernels() const { return runtime_.kernels(); }

  // Begins to bring the batches in, and meanwhile looks for the cuts.
  void begin(const HostIo& split, const HostIo& whole, std::span<const Batch> batches, double weight_of_match) {
    std::vector<MemoryView> partition_scratch;
    std::uint64_t bytes = 0;
    for (const Batch& batch : batches) {
      const RecordType type = batch.io->record_type();
      const std::uint64_t rows = JoinArrival::piece_rows(plan_.sort, type, batch.count);
      bytes = std::max(bytes, kernels().partition_scratch_bytes(type, rows, static_cast<int>(gpus())));
    }
    for (std::size_t g = 0; g < gpus(); ++g) {
      scratch_.push_back(runtime_.allocate(compute_[g].place, bytes, "partition scratch"));
      partition_scratch.push_back(scratch_.back().view());
    }
    arrival_ = std::make_unique<JoinArrival>(runtime_, plan_.sort, batches, partition_scratch, input_.verify);
    arrival_->start();
    cuts_ = choose_join_cuts(runtime_, split.key_type(), sampled(split, compute_), sampled(whole, compute_), gpus(),
                             join_samples(plan_), weight_of_match);
  }

  // Memory to sort up to so many records of a type, on a GPU.
  void make_room_to_sort(std::size_t gpu, std::span<const std::pair<RecordType, std::uint64_t>> sorted) {
    std::uint64_t spare = 0, scratch = 0;
    for (const auto& [type, count] : sorted) {
      spare = std::max(spare, record_bytes(type, count));
      scratch = std::max(scratch, kernels().sort_scratch_bytes(type, count));
      scratch = std::max(scratch, kernels().running_sums_scratch_bytes(count));
      scratch = std::max(scratch, probe_scratch_bytes(kernels(), count));
    }
    spare_.push_back(runtime_.allocate(compute_[gpu].place, spare, "spare records"));
    sort_scratch_.push_back(runtime_.allocate(compute_[gpu].place, scratch, "sort scratch"));
  }

  void receive(std::size_t batch, Relation& relation) {
    if (!arrival_->receive(batch, cuts_, relation.parts())) throw_unlucky();
  }
  [[noreturn]] static void throw_unlucky() {
    throw OutOfMemoryError("samples misjudged how the keys are spread over the GPUs; raise the plan's samples");
  }

  // Sorts what has been received, on the sorting streams.
  void sort(std::size_t batch, Relation& relation) {
    runtime_.set_phase("sort");
    std::vector<Event> received;
    for (const Stream stream : compute_) received.push_back(runtime_.record(stream));
    for (std::size_t g = 0; g < gpus(); ++g) {
      for (const Event event : received) runtime_.wait(sorting_[g], event);
      relation.sort(g, sorting_[g], open_bits(cuts_.cuts, g, relation.type().key_bits()), spare_[g].view(),
                    sort_scratch_[g].view());
      arrival_->note_sorted(batch, g, sorting_[g], relation.own(g));
    }
  }

  void borrow(Relation& whole) {
    runtime_.set_phase("borrow");
    if (!whole.borrow(cuts_, sorting_, router_)) throw_unlucky();
  }

  // Of the totals that a GPU's probes wrote.
  static MatchTotals added(const std::vector<std::vector<MatchTotals>>& totals) {
    MatchTotals sum;
    for (const auto& of_gpu : totals)
      for (const MatchTotals& one : of_gpu) {
        sum.matches += one.matches;
        sum.matched_rows += one.matched_rows;
        sum.probe_sum += one.probe_sum;
        sum.build_sum += one.build_sum;
      }
    return sum;
  }

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  Router router_;
  SortOptions options_;
  HostIo left_io_, right_io_;
  std::vector<Stream> compute_, sorting_;
  JoinCuts cuts_;
  std::vector<Buffer> scratch_, spare_, sort_scratch_;
  std::unique_ptr<JoinArrival> arrival_;
};

class TotalsJoin : InCoreJoin {
 public:
  TotalsJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input)
      : InCoreJoin(runtime, plan, input),
        left_probes_(left_probes(input)),
        probing_(left_probes_ ? left_io_ : right_io_),
        resident_(left_probes_ ? right_io_ : left_io_),
        sums_(sums_values(input)) {}

  JoinTotals run() {
    std::vector<Batch> batches{{&resident_, false, 0, resident_.rows()}};
    // Matched rows of both sides are counted with both there.
    const bool both_probe = input_.kind == JoinKind::full;
    const auto wanted = static_cast<std::uint64_t>(both_probe ? 1 : std::max(plan_.batches, 1));
    for (std::uint64_t b = 0; b < wanted; ++b) {
      const std::uint64_t first = probing_.rows() * b / wanted, end = probing_.rows() * (b + 1) / wanted;
      if (end > first || b == 0) batches.push_back({&probing_, true, first, end - first});
    }
    begin(probing_, resident_, batches, /*weight_of_match=*/0);
    make_room(batches);
    receive(0, *resident_side_);
    sort(0, *resident_side_);
    borrow(*resident_side_);
    make_sums();
    for (std::size_t b = 1; b < batches.size(); ++b) pass(b);
    if (both_probe) probe_back();
    return finish(batches.size());
  }

 private:
  // A batch in the order of the input may all belong to one GPU.
  [[nodiscard]] std::uint64_t most_of(std::span<const Batch> batches) const {
    std::uint64_t most = 0;
    for (const Batch& batch : batches.subspan(1)) most = std::max(most, batch.count);
    return most;
  }

  void make_room(std::span<const Batch> batches) {
    const RecordType type = probing_.record_type();
    resident_side_ = std::make_unique<Relation>(runtime_, compute_, resident_.record_type(), cuts_.whole_room);
    std::vector<PartRoom> room = cuts_.split_room;
    if (batches.size() > 2)
      for (PartRoom& part : room) part.rows = std::min(part.rows, most_of(batches));
    for (std::size_t turn = 0; turn < std::min(batches.size() - 1, most_passing); ++turn)
      passing_.push_back(std::make_unique<Relation>(runtime_, compute_, type, room));
    probed_.assign(passing_.size(), std::vector<Event>(gpus()));
    for (std::size_t g = 0; g < gpus(); ++g) {
      const std::pair<RecordType, std::uint64_t> sorted[] = {
          {resident_.record_type(), cuts_.whole_room[g].rows + cuts_.whole_room[g].borrowed + 32},
          {type, room[g].rows}};
      make_room_to_sort(g, sorted);
      totals_.push_back(runtime_.allocate(compute_[g].place, sizeof(MatchTotals) * (batches.size() + 1), "totals"));
    }
  }

  // So that the values of any range of rows are added up at once.
  void make_sums() {
    build_sums_.resize(gpus());
    if (!sums_) return;
    runtime_.set_phase("sums");
    const HostColumns& columns = left_probes_ ? input_.right : input_.left;
    for (std::size_t g = 0; g < gpus(); ++g) {
      const Records resident = resident_side_->all(g);
      build_sums_[g] = runtime_.allocate(compute_[g].place, 8 * (resident.count + 1), "running sums");
      running_sums(runtime_, sorting_[g], {static_cast<int>(columns.value_width), is_signed(!left_probes_)},
                   resident.values, build_sums_[g].view(), sort_scratch_[g].view());
    }
  }

  [[nodiscard]] bool is_signed(bool left) const {
    return left ? input_.left_values_signed : input_.right_values_signed;
  }

  // A batch comes, is sorted and probes; meanwhile the next one comes.
  void pass(std::size_t batch) {
    const std::size_t turn = (batch - 1) % passing_.size();
    Relation& passing = *passing_[turn];
    passing.clear();
    for (const Stream sender : compute_)
      for (const Event event : probed_[turn]) runtime_.wait(sender, event);
    receive(batch, passing);
    sort(batch, passing);
    runtime_.set_phase("probe");
    for (std::size_t g = 0; g < gpus(); ++g) {
      Probe of_batch = probe_of(passing.own(g), resident_side_->all(g));
      if (sums_) {
        of_batch.values = passing.own(g).values;
        of_batch.value_type = {static_cast<int>(passing.type().value_bytes()), is_signed(left_probes_)};
        of_batch.build_sums = build_sums_[g].view();
      }
      probe(runtime_, sorting_[g], of_batch, sort_scratch_[g].view(), totals_of(g, batch));
      probed_[turn][g] = runtime_.record(sorting_[g]);
    }
  }

  // The resident side's matched rows, of which what it borrowed counts once: all of that is matched.
  void probe_back() {
    for (std::size_t g = 0; g < gpus(); ++g)
      probe(runtime_, sorting_[g], probe_of(resident_side_->own(g), passing_.front()->own(g)), sort_scratch_[g].view(),
            totals_of(g, 0));
  }

  static Probe probe_of(const Records& probing, const Records& build) {
    Probe probe;
    probe.width = probing.type.key;
    probe.keys = probing.keys;
    probe.build_keys = build.keys;
    return probe;
  }

  [[nodiscard]] MemoryView totals_of(std::size_t gpu, std::size_t batch) const {
    return totals_[gpu].slice(sizeof(MatchTotals) * batch, sizeof(MatchTotals));
  }

  JoinTotals finish(std::size_t batches) {
    arrival_->verify();
    std::vector<std::vector<MatchTotals>> probed(gpus(), std::vector<MatchTotals>(batches - 1)), back(gpus());
    const std::uint64_t expected = expected_matches(input_) / (gpus() * (batches - 1));
    const std::vector<MatchTotals> expectation(batches - 1, {expected, expected, 0, 0});
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus(); ++g) {
      reads.push_back({sorting_[g], totals_[g].slice(sizeof(MatchTotals), sizeof(MatchTotals) * (batches - 1)),
                       probed[g].data(), expectation.data()});
      back[g].resize(1);
      if (input_.kind == JoinKind::full) reads.push_back({sorting_[g], totals_of(g, 0), back[g].data()});
    }
    runtime_.read_back(reads);
    runtime_.synchronize();  // nothing may still use what goes away now
    const MatchTotals all = added(probed), resident = added(back);
    JoinCounts counts{all.matches, all.matched_rows, resident.matched_rows, all.probe_sum, all.build_sum};
    if (!left_probes_) {
      std::swap(counts.left_matched, counts.right_matched);
      std::swap(counts.left_sum, counts.right_sum);
    }
    return linkwise::totals_of(input_.kind, counts, input_.left.count, input_.right.count);
  }

  bool left_probes_;
  const HostIo &probing_, &resident_;
  bool sums_;
  std::unique_ptr<Relation> resident_side_;
  std::vector<std::unique_ptr<Relation>> passing_;  // that take turns
  std::vector<std::vector<Event>> probed_;          // [turn][GPU]
  std::vector<Buffer> totals_, build_sums_;
};

class RowsJoin : InCoreJoin {
 public:
  RowsJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) : InCoreJoin(runtime, plan, input) {}

  std::uint64_t run(const MakeOutputs& outputs) {
    const Batch left{&left_io_, true, 0, left_io_.rows()}, right{&right_io_, false, 0, right_io_.rows()};
    const bool left_first = left.count >= right.count;
    const Batch batches[] = {left_first ? left : right, left_first ? right : left};
    begin(left_io_, right_io_, batches, /*weight_of_match=*/1);
    Relation left_side(runtime_, compute_, left_io_.record_type(), cuts_.split_room);
    Relation right_side(runtime_, compute_, right_io_.record_type(), cuts_.whole_room);
    for (std::size_t g = 0; g < gpus(); ++g) {
      const std::pair<RecordType, std::uint64_t> sorted[] = {
          {left_io_.record_type(), cuts_.split_room[g].rows},
          {right_io_.record_type(), cuts_.whole_room[g].rows + cuts_.whole_room[g].borrowed + 32}};
      make_room_to_sort(g, sorted);
    }
    Relation* const in_order[] = {left_first ? &left_side : &right_side, left_first ? &right_side : &left_side};
    for (std::size_t b = 0; b < 2; ++b) {
      receive(b, *in_order[b]);
      sort(b, *in_order[b]);
    }
    borrow(right_side);
    arrival_->verify();
    JoinOutput output(runtime_, plan_, input_, sorting_, router_);
    std::vector<Records> lefts, rights;
    for (std::size_t g = 0; g < gpus(); ++g) {
      lefts.push_back(left_side.all(g));
      rights.push_back(right_side.all(g));
    }
    const std::uint64_t rows = output.count(lefts, rights);
    output.write(outputs(rows));
    runtime_.synchronize();
    return rows;
  }
};

}  // namespace

std::uint64_t in_core_bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                    bool wants_rows) {
  const std::uint64_t gpus = plan.sort.gpus.size();
  const auto part = [&](std::uint64_t rows) { return gpus == 1 ? rows : rows / gpus + rows / gpus / 10 + 4096; };
  const auto scratch = [&](RecordType type, std::uint64_t rows) {
    return std::max({kernels.sort_scratch_bytes(type, rows), probe_scratch_bytes(kernels, rows),
                     kernels.running_sums_scratch_bytes(rows)});
  };
  const bool left_passes = left_probes(input);
  const std::uint64_t batches =
      wants_rows || input.kind == JoinKind::full ? 1 : static_cast<std::uint64_t>(std::max(plan.batches, 1));
  std::uint64_t bytes = 16 << 20, spare = 0, sorting = 0, arriving = 0;
  for (const bool is_left : {true, false}) {
    const HostColumns& columns = is_left ? input.left : input.right;
    const RecordType type = type_of(columns);
    const bool passes = !wants_rows && is_left == left_passes && batches > 1;
    const std::uint64_t of_batch = passes ? columns.count / batches + 1 : columns.count;
    const std::uint64_t rows = std::min(part(columns.count), of_batch);
    bytes += (passes ? std::min<std::uint64_t>(batches, most_passing) : 1) * record_bytes(type, rows);
    if (!wants_rows && !passes) bytes += 8 * rows;  // running sums
    spare = std::max(spare, record_bytes(type, rows));
    sorting = std::max(sorting, scratch(type, rows));
    arriving =
        std::max(arriving, JoinArrival::bytes_per_gpu(plan.sort, type, of_batch) +
                               kernels.partition_scratch_bytes(type, JoinArrival::piece_rows(plan.sort, type, of_batch),
                                                               static_cast<int>(gpus)) +
                               sample_bytes(kernels, type.key, plan.sort.samples / 8));
  }
  bytes += spare + sorting + arriving;
  if (wants_rows)
    bytes += JoinOutput::bytes_per_gpu(kernels, plan, input, part(input.left.count), part(input.right.count));
  return bytes;
}

JoinTotals in_core_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  return TotalsJoin(runtime, plan, input).run();
}

std::uint64_t in_core_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs) {
  return RowsJoin(runtime, plan, input).run(outputs);
}

}  // namespace linkwise
