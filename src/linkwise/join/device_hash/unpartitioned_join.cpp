#include "linkwise/join/device_hash/unpartitioned_join.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/join/device_hash/prices.hpp"
#include "linkwise/join/device_hash/probed_sides.hpp"
#include "linkwise/join/device_hash/skew.hpp"
#include "linkwise/primitives/join_table.hpp"
#include "linkwise/primitives/packing.hpp"

namespace linkwise {
namespace {

constexpr double worth_asking = 100e-6;        // seconds that keys without gaps would save, to ask for their range
constexpr double worth_sampling = 500e-6;      // seconds that skew could save, to sample the keys …
constexpr double least_gain = 0.15;            // … and as a share of the time of a partitioned join
constexpr std::uint64_t many_rows = 1 << 22;   // of the probe side, whose result is estimated before it has memory
constexpr std::uint64_t looked_at = 1 << 18;   // of them, for the estimate
constexpr std::uint64_t spare_rows = 1 << 16;  // that a result's memory may have beside what its rows take
constexpr double spare_share = 1.1;            // of the estimated rows, for which there is memory
const std::string advice = "; join with way hash or sort_merge";

// A kind of table, and the range of the keys unless they are hashed.
struct Choice {
  TableKind kind = TableKind::hashed;
  CodeRange range;
};

class UnpartitionedJoin : ProbedSides {
 public:
  UnpartitionedJoin(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool wants_rows)
      : ProbedSides(runtime, plan, input, wants_rows),
        parts_(runtime, streams_, router_, {.replicates = streams_.size() > 1}, input.verify) {
    check_row_numbers();
    choose();
  }

  std::optional<JoinTotals> totals() {
    for (const Choice& choice : choices_) {
      fill(choice);
      if (!count()) continue;
      std::uint64_t rows = 0;
      std::vector<MatchTotals> found;
      for (const OnGpu& gpu : gpus_) {
        rows += probed_rows(gpu.found.totals, gpu.probe.probe.rows()) + gpu.found.rest;
        found.push_back(gpu.found.totals);
      }
      runtime_.synchronize();
      return totals_of(found, rows);
    }
    return without_use();
  }

  std::optional<std::vector<SortedPart>> rows() {
    for (const Choice& choice : choices_) {
      fill(choice);
      std::vector<RowsOnGpu> made;
      if (!(writes() ? write(made) : count())) continue;
      runtime_.set_phase("materialise");
      std::vector<ReadBack> reads;
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        OnGpu& gpu = gpus_[g];
        if (!writes()) made.push_back(room_for(g, gpu.found.rest));
        if (gpu.probe.met.bytes == 0) continue;
        take_rest(g, columns_in(made[g]));
        reads.push_back({streams_[g], gpu.rest(), &gpu.found.rest});
      }
      if (!reads.empty()) runtime_.read_back(reads);
      for (std::size_t g = 0; g < gpus_.size(); ++g) fit(g, made[g]);
      return handed_over(std::move(made));
    }
    return without_use<std::vector<SortedPart>>();
  }

 private:
  struct Found {  // read back from a GPU
    TableState state;
    MatchTotals totals;
    std::uint64_t taken = 0, rest = 0;
  };
  struct OnGpu {
    TableProbe probe;
    MemoryView numbers;  // a Found
    Found found;
    [[nodiscard]] MemoryView state() const { return numbers.slice(offsetof(Found, state), sizeof(TableState)); }
    [[nodiscard]] MemoryView totals() const { return numbers.slice(offsetof(Found, totals), sizeof(MatchTotals)); }
    [[nodiscard]] MemoryView taken() const { return numbers.slice(offsetof(Found, taken), 8); }
    [[nodiscard]] MemoryView rest() const { return numbers.slice(offsetof(Found, rest), 8); }
  };

  // The kind of a table that is indexed by keys: a bitmap, if it does not matter which build row matches.
  [[nodiscard]] TableKind kind_by_key() const {
    const bool needs_rows = emissions_.takes_rest || sums_ || (wants_rows_ && !asks_whether(emissions_.probe));
    return needs_rows ? TableKind::direct : TableKind::bitmap;
  }

  // Chooses the tables to try, in this order.
  void choose() {
    const bool has_integers = key_class(build_.key_type) != KeyClass::floating;
    const bool emits_alone = emissions_.takes_rest && streams_.size() > 1;
    if (!is_chosen()) {
      const bool is_direct = input_.way == DeviceJoinWay::direct;
      if (build_.rows > (is_direct ? JoinTable::most_rows : JoinTable::most_hashed_rows(build_.type.key)))
        throw UsageError("the shorter side has too many rows for one table" + advice);
      if (emits_alone)
        throw UsageError("with a table on each GPU, unmatched rows of the shorter side would be found on all" + advice);
      if (is_direct && !has_integers) throw UsageError("a direct table is for integer keys" + advice);
      choices_.push_back(is_direct ? by_key() : Choice{});
      if (JoinTable::places_in(choices_.front().range) == 0)
        throw UsageError("the keys of the shorter side spread over more than 2^32 integers" + advice);
      return;
    }
    if (build_.rows > JoinTable::most_rows || emits_alone || input_.hash_table_rows > 0) return;
    const JoinToPrice join = to_price();
    const double partitioned = seconds_of_partitioned(runtime_.machine(), join, layout());
    const auto seconds = [&](TableKind kind, std::uint64_t places) {
      return seconds_of_unpartitioned(runtime_, join, kind, places);
    };
    const double hashed = seconds(TableKind::hashed, JoinTable::slots_for(build_.type.key, build_.rows));
    const double other = std::min(partitioned, hashed);
    if (has_integers && seconds(kind_by_key(), build_.rows) + worth_asking < other) {
      const Choice choice = by_key();
      const std::uint64_t places = JoinTable::places_in(choice.range);
      if (places != 0 && seconds(choice.kind, places) < other) choices_.push_back(choice);
    }
    if (build_.rows <= JoinTable::most_hashed_rows(build_.type.key) &&
        (hashed < partitioned || (choices_.empty() && gains_by_skew(join, partitioned))))
      choices_.push_back({});
  }

  // Whether a table of hashes is faster than partitioning because the probe side's keys are skewed: frequent ones stay
  // in the caches. Samples the keys if that could save enough.
  bool gains_by_skew(JoinToPrice join, double partitioned) {
    const auto hashed = [&](double hot_share) {
      join.hot_share = hot_share;
      return seconds_of_unpartitioned(runtime_, join, TableKind::hashed,
                                      JoinTable::slots_for(build_.type.key, build_.rows));
    };
    if (hashed(1) + std::max(worth_sampling, least_gain * partitioned) > partitioned) return false;
    return hashed(SkewSamples(runtime_, streams_, build_, probe_).skew().hot_share) < partitioned;
  }

  // A table by key, after asking the GPUs for the range of their keys.
  Choice by_key() {
    runtime_.set_phase("range");
    std::vector<CodeRange> ranges(streams_.size());
    std::vector<ReadBack> reads;
    const IntegerType type{native_bytes(build_.key_type), key_class(build_.key_type) == KeyClass::signed_integer};
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      const MemoryView range = allocate(g, sizeof(CodeRange));
      find_range(runtime_, streams_[g], type, build_.records[g].keys, range);
      reads.push_back({streams_[g], range, &ranges[g]});
    }
    runtime_.read_back(reads);
    Choice choice{kind_by_key(), {}};
    for (const CodeRange& range : ranges) {
      choice.range.least = std::min(choice.range.least, range.least);
      choice.range.greatest = std::max(choice.range.greatest, range.greatest);
    }
    return choice;
  }

  // Brings the sides together, before the first table, and fills a table on each GPU.
  void fill(const Choice& choice) {
    if (gpus_.empty()) {
      parts_.start_dividing(input_of(build_), input_of(probe_));
      parts_.bring_together([] { return true; });
    }
    runtime_.set_phase("build");
    gpus_.resize(streams_.size());
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      OnGpu& gpu = gpus_[g];
      const auto& [build, probe, count, first] = parts_.on_gpus()[g];
      JoinTable table = choice.kind == TableKind::hashed ? JoinTable::hashed(build)
                                                         : JoinTable::by_key(build, choice.kind, choice.range);
      gpu.numbers = allocate(g, sizeof(Found));
      table.state = gpu.state();
      table.entries = allocate(g, table.entry_bytes());
      fill_join_table(runtime_, streams_[g], table);
      if (input_.verify) check_join_table(runtime_, streams_[g], table);
      gpu.probe = {std::move(table), probe, emissions_.probe, {}, sums_};
      if (emissions_.takes_rest && build.rows() > 0) gpu.probe.met = allocate(g, build.rows());
    }
  }

  // Counts the rows of the result. Returns whether the tables were of use, as `write` does.
  bool count() {
    runtime_.set_phase("probe");
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      OnGpu& gpu = gpus_[g];
      count_table_matches(runtime_, streams_[g], gpu.probe, gpu.totals());
      reads.push_back({streams_[g], gpu.totals(), &gpu.found.totals});
      if (gpu.probe.met.bytes == 0) continue;
      take_rest(g, {});
      reads.push_back({streams_[g], gpu.rest(), &gpu.found.rest});
    }
    return were_of_use(std::move(reads));
  }

  // The rows that the probe side may make on each GPU: one for each, or as a part of a long side lets expect. Empty if
  // the tables were of no use.
  std::vector<std::uint64_t> expected_rows() {
    std::vector<std::uint64_t> expected;
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      OnGpu& gpu = gpus_[g];
      const std::uint64_t rows = expected.emplace_back(gpu.probe.probe.rows());
      if (rows < many_rows) continue;
      TableProbe some = gpu.probe;
      some.probe = some.probe.slice((rows - looked_at) / 2, looked_at);
      some.met = {};
      count_table_matches(runtime_, streams_[g], some, gpu.totals());
      reads.push_back({streams_[g], gpu.totals(), &gpu.found.totals});
    }
    if (reads.empty()) return expected;
    if (!were_of_use(std::move(reads))) return {};
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      gpus_[g].probe.may_repeat = gpus_[g].found.state.repeated > 0;
      const MatchTotals& found = gpus_[g].found.totals;
      const std::uint64_t made = rows_of_task(emissions_.probe, looked_at, found.matches, found.matched_rows);
      const double each = static_cast<double>(made) / static_cast<double>(looked_at);
      if (expected[g] >= many_rows && (spare_share * each < 1 || each > 1))
        expected[g] = static_cast<std::uint64_t>(spare_share * each * static_cast<double>(expected[g])) + spare_rows;
    }
    return expected;
  }

  // Writes the probe side's rows into memory for those that are expected, and again if it turns out far too much or
  // too little.
  bool write(std::vector<RowsOnGpu>& made) {
    runtime_.set_phase("probe");
    std::vector<std::uint64_t> room = expected_rows();
    if (room.empty()) return false;
    made.resize(gpus_.size());
    for (std::vector<bool> fits(gpus_.size()); std::ranges::any_of(fits, std::logical_not{});) {
      std::vector<ReadBack> reads;
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        if (fits[g]) continue;
        OnGpu& gpu = gpus_[g];
        made[g] = {};  // so that its memory can be taken again
        made[g] = room_for(g, room[g] + gpu.probe.met.bytes);
        const auto [of_probe, of_build] = columns_in(made[g]);
        write_table_matches(runtime_, streams_[g], gpu.probe, of_probe, of_build, room[g], gpu.taken());
        reads.push_back({streams_[g], gpu.taken(), &gpu.found.taken});
      }
      if (!were_of_use(std::move(reads))) return false;
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        const std::uint64_t taken = gpus_[g].found.taken;
        fits[g] = taken <= room[g] && room[g] <= 2 * taken + 2 * spare_rows;
        if (!fits[g]) room[g] = taken;
      }
    }
    return true;
  }

  bool were_of_use(std::vector<ReadBack> reads) {
    for (std::size_t g = 0; g < gpus_.size(); ++g)
      reads.push_back({streams_[g], gpus_[g].state(), &gpus_[g].found.state});
    if (input_.verify) parts_.read_came_in(reads);
    runtime_.read_back(reads);
    if (input_.verify && !parts_.copies_agree()) throw_changed("a copy of the shorter side is not what came in");
    const auto is_usable = [&](const OnGpu& gpu) {
      return gpu.found.state.is_usable(gpu.probe.table.kind, gpu.probe.table.build.rows(),
                                       asks_whether(emissions_.probe));
    };
    if (!std::ranges::all_of(gpus_, is_usable)) return false;
    if (std::ranges::any_of(gpus_, [](const OnGpu& gpu) { return gpu.found.state.missing > 0; }))
      throw_changed("the table of the shorter side is not what came in");
    return true;
  }

  template <typename Result = JoinTotals>
  std::optional<Result> without_use() {
    if (!is_chosen())
      throw UsageError(input_.way == DeviceJoinWay::direct
                           ? "a key of the shorter side repeats, and a direct table has room for one" + advice
                           : "too many rows of the shorter side have the same key for one table" + advice);
    runtime_.synchronize();
    return {};
  }

  // Emits the build rows that have matched or have not, behind those that the probe side has written.
  void take_rest(std::size_t g, const std::pair<HashColumn, HashColumn>& columns) {
    OnGpu& gpu = gpus_[g];
    take_hash_rest(runtime_, streams_[g], gpu.probe.table.build, gpu.probe.met, emissions_.rest_has_met,
                   gpu.found.taken, columns.first, columns.second, gpu.rest());
  }

  // Leaves out the memory that no row has taken.
  void fit(std::size_t g, RowsOnGpu& made) const {
    const std::uint64_t rows = gpus_[g].found.taken + gpus_[g].found.rest, room = made.count;
    if (rows == room) return;
    for (MemoryView* column : {&made.left, &made.right}) *column = column->slice(0, column->bytes / room * rows);
    made.count = rows;
  }

  HashParts parts_;
  std::vector<Choice> choices_;
  std::vector<OnGpu> gpus_;
};

}  // namespace

std::optional<JoinTotals> unpartitioned_join_totals(Runtime& runtime, const JoinPlan& plan,
                                                    const DeviceJoinInput& input) {
  return UnpartitionedJoin(runtime, plan, input, /*wants_rows=*/false).totals();
}

std::optional<std::vector<SortedPart>> unpartitioned_join_rows(Runtime& runtime, const JoinPlan& plan,
                                                               const DeviceJoinInput& input) {
  return UnpartitionedJoin(runtime, plan, input, /*wants_rows=*/true).rows();
}

}  // namespace linkwise
