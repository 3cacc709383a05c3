#include "linkwise/join/sorted_join.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/join/subpartitions.hpp"
#include "linkwise/primitives/host/keys.hpp"
#include "linkwise/primitives/host/match.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
namespace {

constexpr std::size_t streams_of_gpu = 3;        // join25 §3.3.2
constexpr std::uint64_t least_pairs_of_gpu = 3;  // so that there is something to overlap

// One side: sorted runs, each a pair of host columns.
class SortedSide {
 public:
  SortedSide(Runtime& runtime, const JoinPlan& plan, const HostColumns& columns, bool is_presorted,
             const SortOptions& options)
      : is_claimed_(is_presorted) {
    if (is_presorted) columns_.push_back(columns);
    else if (plan.merges_runs) sort_into_one(runtime, plan.sort, columns, options);
    else sort_into_several(runtime, plan.sort, columns, options);
    for (const HostColumns& run : columns_) {
      runs_.key_type = run.key_type;
      runs_.runs.push_back({run.keys, run.values, run.count});
    }
    if (columns_.empty()) runs_.key_type = code_type(key_width(columns.key_type));
    type_ = {key_width(columns.key_type), columns.value_width};
  }

  // What copies go through; made when nothing is sorted any more.
  void use(Runtime& runtime, Router& router, const SortOptions& options) {
    for (const HostColumns& run : columns_) ios_.emplace_back(runtime, router, run, options);
  }

  [[nodiscard]] const SortedRuns& runs() const { return runs_; }
  [[nodiscard]] RecordType type() const { return type_; }
  [[nodiscard]] bool is_claimed() const { return is_claimed_; }
  [[nodiscard]] bool is_merged() const { return columns_.size() <= 1; }

  // Copies the ranges in, one behind the other, as codes.
  void copy_in(Stream stream, const std::vector<RunRange>& ranges, const Records& to, const MemoryView& raw) const {
    std::uint64_t at = 0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const Records slice = to.slice(at, ranges[r].count());
      at += slice.count;
      if (slice.count == 0) continue;
      const MemoryView native = ios_[r].is_narrow() ? raw.slice(0, slice.count * ios_[r].native_key_bytes()) : raw;
      ios_[r].copy_in(stream, ranges[r].begin, slice, native);
      ios_[r].encode_rows(stream, ranges[r].begin, slice, native);
    }
  }

  // The values of some rows, added up on the host's cores.
  [[nodiscard]] std::uint64_t sum(const std::vector<RunRange>& ranges, bool is_signed) const {
    std::uint64_t total = 0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const IntegerType type{static_cast<int>(columns_[r].value_width), is_signed};
      const void* values = columns_[r].values;
#pragma omp parallel for reduction(+ : total) if (ranges[r].count() > 1 << 16)
      for (std::uint64_t i = ranges[r].begin; i < ranges[r].end; ++i) total += integer_at(values, type, i);
    }
    return total;
  }

 private:
  void sort_into_several(Runtime& runtime, const SortPlan& plan, const HostColumns& columns,
                         const SortOptions& options) {
    const RecordType type{key_width(columns.key_type), columns.value_width};
    memory_.push_back(runtime.allocate(Place::host(), record_bytes(type, columns.count), "runs"));
    for (const Records& run : sort_into_runs(runtime, plan, columns, memory_.back().view(), options))
      columns_.push_back({code_type(type.key), run.count, run.keys.data, type.value, run.values.data});
  }

  void sort_into_one(Runtime& runtime, const SortPlan& plan, const HostColumns& columns, const SortOptions& options) {
    const auto width = static_cast<std::uint64_t>(columns.value_width);
    memory_.push_back(runtime.allocate(
        Place::host(), columns.count * static_cast<std::uint64_t>(native_bytes(columns.key_type)), "sorted keys"));
    memory_.push_back(runtime.allocate(Place::host(), columns.count * width, "sorted values"));
    HostColumns sorted{columns.key_type, columns.count, memory_[0].view().data, columns.value_width, nullptr};
    if (width > 0) sorted.values = memory_[1].view().data;
    sort_columns(runtime, plan, columns, {memory_[0].view().data, width > 0 ? memory_[1].view().data : nullptr},
                 options);
    columns_.push_back(sorted);
  }

  bool is_claimed_;
  RecordType type_;
  std::vector<Buffer> memory_;
  std::vector<HostColumns> columns_;
  SortedRuns runs_;
  std::vector<HostIo> ios_;
};

class SortedJoin {
 public:
  SortedJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        options_{false, input.verify},
        left_(runtime, plan, input.left, input.left_presorted, options_),
        right_(runtime, plan, input.right, input.right_presorted, options_),
        router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
        left_probes_(left_probes(input)),
        sums_(sums_values(input)) {
    left_.use(runtime, router_, options_);
    right_.use(runtime, router_, options_);
  }

  JoinTotals run() {
    cut();
    make_room();
    for (std::size_t pair = 0; pair < pairs_.parts.size(); ++pair) join(pair);
    JoinCounts counts = read_counts();
    for (const PairOfRanges& key : pairs_.taken_out) counts += counts_of(key);
    runtime_.synchronize();
    return totals_of(input_.kind, counts, input_.left.count, input_.right.count);
  }

 private:
  struct Lane {
    Stream stream;
    Buffer left, right, spare, raw, sums, scratch;
  };
  // What a pair's probes write.
  struct Notes {
    MatchTotals forward, backward;
    std::uint64_t left_violations = 0, right_violations = 0;
  };

  void cut() {
    runtime_.set_phase("partition");
    const std::uint64_t gpus = plan_.sort.gpus.size(), rows = input_.left.count + input_.right.count;
    const std::uint64_t row_bytes = std::max(left_.type().bytes(), right_.type().bytes());
    const std::uint64_t wanted = rows * row_bytes / plan_.pair_bytes / gpus + 1;
    const std::uint64_t parts = gpus * std::max(wanted, least_pairs_of_gpu);
    if (!runtime_.estimating()) {
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
    for (const PairOfRanges& pair : pairs_.parts) {
      lefts = std::max(lefts, rows_in(pair.left));
      rights = std::max(rights, rows_in(pair.right));
    }
    const Kernels& kernels = runtime_.kernels();
    const std::uint64_t most = std::max(lefts, rights);
    std::uint64_t scratch = std::max(probe_scratch_bytes(kernels, most), kernels.running_sums_scratch_bytes(most));
    std::uint64_t spare = 0;
    for (const SortedSide* side : {&left_, &right_}) {
      if (side->is_merged()) continue;
      scratch = std::max(scratch, kernels.sort_scratch_bytes(side->type(), most));
      spare = std::max(spare, record_bytes(side->type(), most));
    }
    for (const int gpu : plan_.sort.gpus) {
      const Place place = Place::gpu(gpu);
      notes_.push_back(runtime_.allocate(place, sizeof(Notes) * pairs_.parts.size(), "totals"));
      for (std::size_t s = 0; s < streams_of_gpu; ++s) {
        Lane& lane = lanes_.emplace_back();
        lane.stream = runtime_.stream(place, "join " + std::to_string(s));
        lane.left = runtime_.allocate(place, record_bytes(left_.type(), lefts), "left pair");
        lane.right = runtime_.allocate(place, record_bytes(right_.type(), rights), "right pair");
        lane.spare = runtime_.allocate(place, spare, "spare records");
        lane.raw = runtime_.allocate(place, 2 * most, "native keys");
        lane.sums = runtime_.allocate(place, sums_ ? 8 * (most + 1) : 0, "running sums");
        lane.scratch = runtime_.allocate(place, scratch, "scratch");
      }
    }
  }

  // A GPU has consecutive pairs, and gives them to its streams in turn; the GPUs go on side by side.
  void join(std::size_t number) {
    const std::size_t gpus = plan_.sort.gpus.size(), of_gpu = pairs_.parts.size() / gpus;
    const std::size_t gpu = number % gpus, round = number / gpus;
    const std::size_t at = gpu * of_gpu + round;
    const PairOfRanges& pair = pairs_.parts[at];
    const Lane& lane = lanes_[gpu * streams_of_gpu + round % streams_of_gpu];
    const MemoryView notes = notes_[gpu].slice(sizeof(Notes) * at, sizeof(Notes));
    runtime_.set_phase("HtoD");
    const Records lefts = bring(lane, left_, pair.left, lane.left);
    const Records rights = bring(lane, right_, pair.right, lane.right);
    runtime_.set_phase("join");
    if (input_.verify || left_.is_claimed())
      check_order(runtime_, lane.stream, lefts.type.key, lefts.keys, notes.slice(offsetof(Notes, left_violations), 8));
    if (input_.verify || right_.is_claimed())
      check_order(runtime_, lane.stream, rights.type.key, rights.keys,
                  notes.slice(offsetof(Notes, right_violations), 8));
    const Records& probing = left_probes_ ? lefts : rights;
    const Records& build = left_probes_ ? rights : lefts;
    Probe forward;
    forward.width = probing.type.key;
    forward.keys = probing.keys;
    forward.build_keys = build.keys;
    if (sums_) {
      forward.values = probing.values;
      forward.value_type = {static_cast<int>(probing.type.value_bytes()), is_signed(left_probes_)};
      forward.build_sums = lane.sums.slice(0, 8 * (build.count + 1));
      running_sums(runtime_, lane.stream, {static_cast<int>(build.type.value_bytes()), is_signed(!left_probes_)},
                   build.values, forward.build_sums, lane.scratch.view());
    }
    probe(runtime_, lane.stream, forward, lane.scratch.view(),
          notes.slice(offsetof(Notes, forward), sizeof(MatchTotals)));
    if (input_.kind != JoinKind::full) return;
    Probe backward;
    backward.width = build.type.key;
    backward.keys = build.keys;
    backward.build_keys = probing.keys;
    probe(runtime_, lane.stream, backward, lane.scratch.view(),
          notes.slice(offsetof(Notes, backward), sizeof(MatchTotals)));
  }

  [[nodiscard]] bool is_signed(bool left) const {
    return left ? input_.left_values_signed : input_.right_values_signed;
  }

  // The rows of a side, in order.
  [[nodiscard]] Records bring(const Lane& lane, const SortedSide& side, const std::vector<RunRange>& ranges,
                              const Buffer& memory) const {
    const Records records = records_in(memory.view(), side.type(), rows_in(ranges));
    side.copy_in(lane.stream, ranges, records, lane.raw.view());
    if (side.is_merged() || records.count == 0) return records;
    const Records spare = records_in(lane.spare.view(), side.type(), records.count);
    const Records sorted =
        sort(runtime_, lane.stream, records, spare, {0, side.type().key_bits()}, lane.scratch.view());
    if (sorted.keys.data != records.keys.data) copy(runtime_, lane.stream, records, sorted);
    return records;
  }

  JoinCounts read_counts() {
    const std::size_t gpus = plan_.sort.gpus.size(), of_gpu = pairs_.parts.size() / gpus;
    std::vector<Notes> notes(pairs_.parts.size()), expectation(notes);
    for (Notes& expected : expectation)
      expected.forward.matches = expected.forward.matched_rows = expected_matches(input_) / notes.size();
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus; ++g) {
      for (std::size_t s = 1; s < streams_of_gpu; ++s)
        runtime_.wait(lanes_[g * streams_of_gpu].stream, runtime_.record(lanes_[g * streams_of_gpu + s].stream));
      reads.push_back({lanes_[g * streams_of_gpu].stream,
                       notes_[g].slice(sizeof(Notes) * g * of_gpu, sizeof(Notes) * of_gpu), &notes[g * of_gpu],
                       &expectation[g * of_gpu]});
    }
    runtime_.read_back(reads);
    check_claims(notes);
    JoinCounts counts;
    for (const Notes& note : notes) {
      JoinCounts of_pair{note.forward.matches, note.forward.matched_rows, note.backward.matched_rows,
                         note.forward.probe_sum, note.forward.build_sum};
      if (!left_probes_) {
        std::swap(of_pair.left_matched, of_pair.right_matched);
        std::swap(of_pair.left_sum, of_pair.right_sum);
      }
      if (input_.kind != JoinKind::full) (left_probes_ ? of_pair.right_matched : of_pair.left_matched) = 0;
      counts += of_pair;
    }
    return counts;
  }

  // Pairs are in order by themselves, and one follows the other.
  void check_claims(const std::vector<Notes>& notes) const {
    if (runtime_.estimating()) return;
    for (const bool is_left : {true, false}) {
      const SortedSide& side = is_left ? left_ : right_;
      const bool in_order = std::ranges::all_of(
          notes, [&](const Notes& note) { return (is_left ? note.left_violations : note.right_violations) == 0; });
      if (side.is_claimed() && (!in_order || !joins_up(is_left)))
        throw UsageError(std::string("the ") + (is_left ? "left" : "right") +
                         " side is not presorted: keys are out of order");
      if (!side.is_claimed() && input_.verify && !in_order)
        throw CorruptDataError("sorted runs are out of order; check the host's memory and the links, and run again");
    }
  }

  // Whether what a side puts into the pairs and the keys that were taken out is in order from one to the next.
  [[nodiscard]] bool joins_up(bool is_left) const {
    const SortedRuns& side = (is_left ? left_ : right_).runs();
    if (side.runs.empty() || side.runs.front().count == 0) return true;
    const HostRun& run = side.runs.front();
    const auto rises = [&](std::uint64_t row) {
      return row == 0 || row >= run.count ||
             code_at(run.keys, side.key_type, row - 1) <= code_at(run.keys, side.key_type, row);
    };
    const auto is_ordered = [&](const PairOfRanges& pair) {
      const RunRange range = (is_left ? pair.left : pair.right).front();
      return rises(range.begin) && rises(range.end);
    };
    const auto is_one_key = [&](const PairOfRanges& pair) {
      const RunRange range = (is_left ? pair.left : pair.right).front();
      bool equal = true;
#pragma omp parallel for reduction(&& : equal) if (range.count() > 1 << 16)
      for (std::uint64_t row = range.begin; row < range.end; ++row)
        equal = equal && code_at(run.keys, side.key_type, row) == code_at(run.keys, side.key_type, range.begin);
      return equal && is_ordered(pair);
    };
    return std::ranges::all_of(pairs_.parts, is_ordered) && std::ranges::all_of(pairs_.taken_out, is_one_key);
  }

  // Of a key that was taken out.
  [[nodiscard]] JoinCounts counts_of(const PairOfRanges& key) const {
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
  bool left_probes_, sums_;
  Subpartitions pairs_;
  std::vector<Lane> lanes_;    // of all GPUs
  std::vector<Buffer> notes_;  // of each GPU
};

}  // namespace

JoinTotals sorted_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  if (input.left.key_type != input.right.key_type) throw UsageError("the keys of the two sides differ in type");
  check_gpus(runtime.machine(), plan.sort);
  return SortedJoin(runtime, plan, input).run();
}

}  // namespace linkwise
