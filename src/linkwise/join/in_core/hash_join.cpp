#include "linkwise/join/in_core/hash_join.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/exchange/piece_exchange.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t rows_of_partition = 1024;  // of the build side: half of what a table takes at once

class HashJoin : DeviceJoinSides {
 public:
  HashJoin(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input)
      : DeviceJoinSides(runtime, plan, input, /*numbers_rows=*/false) {}

  JoinTotals run() {
    DeviceSide& build = left_.rows <= right_.rows ? left_ : right_;
    DeviceSide& probing = &build == &left_ ? right_ : left_;
    const int bits = std::clamp(static_cast<int>(std::bit_width(build.rows / rows_of_partition)), 1, 24);
    std::vector<Records> built = bring(build, bits), probed = bring(probing, bits);
    runtime_.set_phase("probe");
    const bool build_is_left = &build == &left_;
    const bool sums = left_.type.value != ValueWidth::none && right_.type.value != ValueWidth::none;
    std::vector<MatchTotals> totals(streams_.size());
    std::vector<Buffer> memory;
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      memory.push_back(runtime_.allocate(streams_[g].place, sizeof(MatchTotals), "totals"));
      HashProbe probe{build.type.key, bits, probed[g].keys, {}, {}, built[g].keys, {}, {}};
      if (sums) {
        probe.values = probed[g].values;
        probe.value_type = integers_of(!build_is_left);
        probe.build_values = built[g].values;
        probe.build_value_type = integers_of(build_is_left);
      }
      hash_probe(runtime_, streams_[g], probe, memory[g].view());
      reads.push_back({streams_[g], memory[g].view(), &totals[g]});
    }
    runtime_.read_back(reads);
    JoinTotals sum;
    for (const MatchTotals& of_gpu : totals) {
      sum.rows += of_gpu.matches;
      sum.left_sum += build_is_left ? of_gpu.build_sum : of_gpu.probe_sum;
      sum.right_sum += build_is_left ? of_gpu.probe_sum : of_gpu.build_sum;
    }
    runtime_.synchronize();
    return sum;
  }

 private:
  // Hashed, where they belong, and partitioned by their uppermost bits.
  std::vector<Records> bring(DeviceSide& side, int bits) {
    const std::uint64_t gpus = streams_.size();
    const std::uint64_t room = gpus == 1 ? side.rows : side.rows / gpus + side.rows / gpus / 8 + 4096;
    FillingParts parts;
    std::vector<ExchangeInput> inputs;
    std::vector<Buffer> temporary;
    const auto allocate = [&](std::size_t g, std::uint64_t bytes) {
      return temporary.emplace_back(runtime_.allocate(streams_[g].place, bytes, "hash join")).view();
    };
    Splitters splitters;
    const int key_bits = side.type.key_bits();
    for (std::uint64_t d = 1; d < gpus; ++d)  // fractions of all hashes
      splitters.key[splitters.count++] = ((d << 32) / gpus) << (key_bits - 32);
    for (std::size_t g = 0; g < gpus; ++g) {
      runtime_.set_phase("hash");
      Records hashed = side.records[g];
      hashed.keys = allocate(g, hashed.keys.bytes);
      hash_keys(runtime_, streams_[g], side.type.key, side.records[g].keys, hashed.keys);
      const std::uint64_t scratch =
          runtime_.kernels().partition_scratch_bytes(side.type, hashed.count, static_cast<int>(gpus));
      inputs.push_back({streams_[g], hashed, splitters, allocate(g, scratch), allocate(g, 8 * max_destinations)});
      kept_.push_back(runtime_.allocate(streams_[g].place, record_bytes(side.type, room), "hash join"));
      parts.room.push_back(records_in(kept_.back().view(), side.type, room));
      parts.received.push_back(0);
    }
    if (!exchange_records(runtime_, inputs, parts))
      throw UsageError(
          "a GPU would get much more than its share of the hashed keys, of which a hash join keeps the rows "
          "together; join by sorting, which spreads them");
    runtime_.set_phase("sort");
    std::vector<Event> sent;
    for (const Stream stream : streams_) sent.push_back(runtime_.record(stream));
    std::vector<Records> partitioned;
    for (std::size_t g = 0; g < gpus; ++g) {
      for (const Event event : sent) runtime_.wait(streams_[g], event);
      const Records mine = parts.room[g].slice(0, parts.received[g]);
      kept_.push_back(runtime_.allocate(streams_[g].place, record_bytes(side.type, mine.count), "hash join"));
      const MemoryView scratch = allocate(g, runtime_.kernels().sort_scratch_bytes(side.type, mine.count));
      partitioned.push_back(sort(runtime_, streams_[g], mine, records_in(kept_.back().view(), side.type, mine.count),
                                 {key_bits - bits, key_bits}, scratch));
    }
    for (Buffer& buffer : temporary) runtime_.retire(std::move(buffer));
    return partitioned;
  }

  std::vector<Buffer> kept_;
};

}  // namespace

JoinTotals hash_join_device_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input) {
  if (input.kind != JoinKind::inner) throw UsageError("the hash join, which is a baseline, does inner joins alone");
  runtime.clear_timeline();
  JoinTotals totals;
  run_or_abandon(runtime, [&] { totals = HashJoin(runtime, plan, input).run(); });
  return totals;
}

}  // namespace linkwise
