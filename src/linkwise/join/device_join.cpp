#include "linkwise/join/device_join.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/join/device_hash/hash_join.hpp"
#include "linkwise/join/device_hash/unpartitioned_join.hpp"
#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/join/in_core/join_output.hpp"
#include "linkwise/join/in_core/join_splitters.hpp"
#include "linkwise/join/in_core/relation.hpp"
#include "linkwise/join/in_core/replicated_join.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

class DeviceJoin : DeviceJoinSides {
 public:
  DeviceJoin(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool wants_rows)
      : DeviceJoinSides(runtime, plan, input, /*numbers_rows=*/wants_rows),
        router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
        wants_rows_(wants_rows) {
    shape_ = shape();
    left_probes_ = wants_rows || left_probes(shape_);
    sums_ = sums_values(shape_);
  }

  JoinTotals totals() {
    JoinCounts counts;
    with_sides([&](const Relation& passing, const Relation& staying) {
      counts = probe_all(passing, staying);
      runtime_.synchronize();
    });
    return totals_of(input_.kind, counts, left_.rows, right_.rows);
  }

  std::vector<SortedPart> rows() {
    std::vector<SortedPart> parts;
    with_sides([&](const Relation& left, const Relation& right) {
      JoinOutput output(runtime_, plan_, shape_, streams_, router_);
      std::vector<Records> lefts, rights;
      for (std::size_t g = 0; g < streams_.size(); ++g) {
        lefts.push_back(left.all(g));
        rights.push_back(right.all(g));
      }
      output.count(lefts, rights);
      parts = handed_over(output.write_on_gpus());
    });
    return parts;
  }

 private:
  // Calls body(probe side, build side), both exchanged and sorted.
  template <typename Body>
  void with_sides(const Body& body) {
    const DeviceSide& probing = left_probes_ ? left_ : right_;
    const DeviceSide& resident = left_probes_ ? right_ : left_;
    const JoinSplitters cuts =
        choose_join_cuts(runtime_, code_type(probing.type.key), sampled(probing), sampled(resident), streams_.size(),
                         join_samples(plan_), /*weight_of_match=*/wants_rows_ ? 1 : 0);
    Relation passing(runtime_, streams_, probing.type, cuts.split_room, suits_msd_sort(probing, streams_.size()));
    Relation staying(runtime_, streams_, resident.type, cuts.whole_room, suits_msd_sort(resident, streams_.size()));
    bring(probing, cuts, /*is_split=*/true, passing);
    bring(resident, cuts, /*is_split=*/false, staying);
    runtime_.set_phase("borrow");
    staying.borrow(cuts, streams_, router_);
    body(passing, staying);
  }

  // Exchanges a side and sorts what each GPU then has.
  void bring(const DeviceSide& side, const JoinSplitters& cuts, bool is_split, Relation& relation) {
    SortVerifier verifier(runtime_, streams_, own_codes(side.type.key));
    if (input_.verify) {
      runtime_.set_phase("verify input");
      verifier.before(side.records);
    }
    std::vector<Buffer> scratch, totals;
    std::vector<ExchangeInput> inputs;
    const auto parts = static_cast<int>(streams_.size());
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      const Records& records = side.records[g];
      const Place place = streams_[g].place;
      scratch.push_back(runtime_.allocate(
          place, runtime_.kernels().partition_scratch_bytes(side.type, records.count, parts), "partition scratch"));
      totals.push_back(runtime_.allocate(place, 8 * max_destinations, "totals"));
      const RowRange rows{side.first_rows[g], side.first_rows[g] + records.count};
      inputs.push_back({streams_[g], records, scratch[g].view(), totals[g].view(), cuts.splitters_for(is_split, rows)});
    }
    if (!exchange_records(runtime_, inputs, relation.parts())) throw_samples_misjudged();
    runtime_.set_phase("sort");
    std::vector<Event> sent;
    for (const Stream stream : streams_) sent.push_back(runtime_.record(stream));
    std::vector<Records> sorted;
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      for (const Event event : sent) runtime_.wait(streams_[g], event);
      const std::uint64_t rows = relation.received(g);
      Buffer spare = runtime_.allocate(streams_[g].place, record_bytes(side.type, rows), "spare records");
      Buffer room = runtime_.allocate(streams_[g].place, local_sort_scratch_bytes(runtime_.kernels(), side.type, rows),
                                      "sort scratch");
      relation.sort(g, streams_[g], open_bits(cuts.cuts, g, side.type.key_bits()), spare.view(), room.view());
      sorted.push_back(relation.own(g));
      runtime_.retire(std::move(spare));
      runtime_.retire(std::move(room));
    }
    if (input_.verify) {
      runtime_.set_phase("verify");
      verifier.check(sorted);
    }
    for (Buffer& buffer : scratch) runtime_.retire(std::move(buffer));
    for (Buffer& buffer : totals) runtime_.retire(std::move(buffer));
  }

  JoinCounts probe_all(const Relation& passing, const Relation& staying) {
    runtime_.set_phase("probe");
    const bool both = input_.kind == JoinKind::full;
    std::vector<Buffer> memory;
    const auto allocate = [&](std::size_t gpu, std::uint64_t bytes) -> MemoryView {
      return memory.emplace_back(runtime_.allocate(streams_[gpu].place, bytes, "probe")).view();
    };
    std::vector<std::vector<MatchTotals>> totals(streams_.size(), std::vector<MatchTotals>(2));
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      const Records probing = passing.own(g), build = staying.all(g);
      const MemoryView found = allocate(g, 2 * sizeof(MatchTotals));
      const std::uint64_t most = std::max(probing.count, build.count);
      const MemoryView scratch = allocate(g, matching_scratch_bytes(runtime_.kernels(), most));
      Probe forward = probe_of(probing, build);
      if (sums_) {
        forward.values = probing.values;
        forward.value_type = integers_of(left_probes_);
        forward.build_sums = allocate(g, 8 * (build.count + 1));
        running_sums(runtime_, streams_[g], integers_of(!left_probes_), build.values, forward.build_sums, scratch);
      }
      probe(runtime_, streams_[g], forward, scratch, found.slice(0, sizeof(MatchTotals)));
      if (both)
        probe(runtime_, streams_[g], probe_of(staying.own(g), probing), scratch,
              found.slice(sizeof(MatchTotals), sizeof(MatchTotals)));
      reads.push_back({streams_[g], found.slice(0, (both ? 2 : 1) * sizeof(MatchTotals)), totals[g].data()});
    }
    runtime_.read_back(reads);
    JoinCounts counts;
    for (const auto& of_gpu : totals) counts += counts_of(left_probes_, of_gpu[0], of_gpu[1]);
    return counts;
  }

  Router router_;
  bool wants_rows_;
  JoinInput shape_;
  bool left_probes_ = true, sums_ = false;
};

// Returns the result of the first of the hash joins that is asked for, or is the better choice and has enough memory.
template <typename Unpartitioned, typename Partitioned>
auto hashed(Runtime& runtime, const DeviceJoinInput& input, const Unpartitioned& unpartitioned,
            const Partitioned& partitioned) -> decltype(partitioned()) {
  decltype(partitioned()) made;
  const bool is_chosen = input.way == DeviceJoinWay::chosen;
  const auto attempt = [&](const auto& join) {
    try {
      run_or_abandon(runtime, [&] { made = join(); });
    } catch (const OutOfMemoryError&) {
      if (!is_chosen) throw;
    }
  };
  if (input.way != DeviceJoinWay::hash) attempt(unpartitioned);
  if (!made && (is_chosen || input.way == DeviceJoinWay::hash)) attempt(partitioned);
  return made;
}

}  // namespace

JoinTotals join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input) {
  runtime.clear_timeline();
  if (input.way != DeviceJoinWay::sort_merge)
    if (const auto totals = hashed(
            runtime, input, [&] { return unpartitioned_join_totals(runtime, plan, input); },
            [&] { return hash_join_totals(runtime, plan, input); }))
      return *totals;
  JoinTotals totals;
  run_or_abandon(runtime, [&] { totals = DeviceJoin(runtime, plan, input, /*wants_rows=*/false).totals(); });
  return totals;
}

std::vector<SortedPart> join_device_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input) {
  runtime.clear_timeline();
  const bool carries_16_bytes = input.left.value_width == ValueWidth::v16 || input.right.value_width == ValueWidth::v16;
  const bool is_chosen = input.way == DeviceJoinWay::chosen;
  if (carries_16_bytes && !is_chosen && input.way != DeviceJoinWay::sort_merge)
    throw UsageError("a hash join carries values of 4 or 8 bytes; ask for row numbers");
  if (is_chosen ? input.any_order && !carries_16_bytes : input.way != DeviceJoinWay::sort_merge)
    if (auto parts = hashed(
            runtime, input, [&] { return unpartitioned_join_rows(runtime, plan, input); },
            [&] { return hash_join_rows(runtime, plan, input); }))
      return std::move(*parts);
  std::vector<SortedPart> parts;
  run_or_abandon(runtime, [&] {
    parts = is_worth_replicating(input) ? replicated_join_rows(runtime, plan, input)
                                        : DeviceJoin(runtime, plan, input, /*wants_rows=*/true).rows();
  });
  return parts;
}

}  // namespace linkwise
