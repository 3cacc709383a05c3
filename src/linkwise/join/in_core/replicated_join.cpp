#include "linkwise/join/in_core/replicated_join.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/join/in_core/join_output.hpp"
#include "linkwise/join/in_core/relation.hpp"
#include "linkwise/join/replicate.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
namespace {

std::uint64_t rows_of(const DeviceColumns& columns) {
  std::uint64_t rows = 0;
  for (const DevicePart& part : columns.parts) rows += part.count;
  return rows;
}

class ReplicatedJoin : DeviceJoinSides {
 public:
  ReplicatedJoin(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input)
      : DeviceJoinSides(runtime, plan, input, /*numbers_rows=*/true),
        router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
        left_is_longer_(left_.rows >= right_.rows),
        longer_(left_is_longer_ ? left_ : right_),
        shorter_(left_is_longer_ ? right_ : left_),
        everywhere_(runtime, streams_, shorter_.type,
                    std::vector<PartRoom>(streams_.size(), {.rows = shorter_.rows, .borrowed = 0}),
                    suits_msd_sort(shorter_, 1)),
        verifier_(runtime, streams_, own_codes(shorter_.type.key)) {}

  std::vector<SortedPart> rows() {
    if (input_.verify) {
      runtime_.set_phase("verify input");
      verifier_.before(shorter_.records);
    }
    runtime_.set_phase("exchange");
    FillingParts& parts = everywhere_.parts();
    replicate(runtime_, router_, streams_, shorter_, parts.room);
    std::ranges::fill(parts.received, shorter_.rows);
    sort();
    JoinInput shape = this->shape();
    if (!left_is_longer_) std::swap(shape.left, shape.right);
    JoinOutput output(runtime_, plan_, shape, streams_, router_);
    std::vector<Records> shorter;
    for (std::size_t g = 0; g < streams_.size(); ++g) shorter.push_back(everywhere_.own(g));
    if (input_.verify) {
      runtime_.set_phase("verify");
      verifier_.check_copies(shorter);
    }
    output.count(longer_.records, std::move(shorter), /*lefts_rise=*/false);
    std::vector<RowsOnGpu> made = output.write_on_gpus();
    if (!left_is_longer_)
      for (RowsOnGpu& rows : made) std::swap(rows.left, rows.right);
    return handed_over(std::move(made));
  }

 private:
  // Waits for all copies first: other GPUs may still be reading the records that a GPU sorts.
  void sort() {
    runtime_.set_phase("sort");
    const std::uint64_t scratch = local_sort_scratch_bytes(runtime_.kernels(), shorter_.type, shorter_.rows);
    std::vector<Event> copied;
    for (const Stream stream : streams_) copied.push_back(runtime_.record(stream));
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      for (const Event event : copied) runtime_.wait(streams_[g], event);
      Buffer spare = runtime_.allocate(streams_[g].place, record_bytes(shorter_.type, shorter_.rows), "spare records");
      Buffer room = runtime_.allocate(streams_[g].place, scratch, "sort scratch");
      everywhere_.sort(g, streams_[g], {0, shorter_.type.key_bits()}, spare.view(), room.view());
      runtime_.retire(std::move(spare));
      runtime_.retire(std::move(room));
    }
  }

  Router router_;
  bool left_is_longer_;
  const DeviceSide &longer_, &shorter_;
  Relation everywhere_;
  SortVerifier verifier_;
};

}  // namespace

// With replication, every GPU sorts no more rows than its share of the longer side, and searches for keys in its
// cache. Very few rows are sorted in less time than the steps of an exchange spend waiting for each other.
bool is_worth_replicating(const DeviceJoinInput& input) {
  constexpr std::uint64_t most_rows = 4 << 20, few_rows = 2 << 20;
  const std::uint64_t left = rows_of(input.left), right = rows_of(input.right), shorter = std::min(left, right);
  const std::uint64_t times = std::max<std::uint64_t>(input.left.parts.size(), 2);
  if (!input.any_order || input.kind != JoinKind::inner) return false;
  return shorter <= few_rows || (shorter <= most_rows && times * shorter <= std::max(left, right));
}

std::vector<SortedPart> replicated_join_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input) {
  return ReplicatedJoin(runtime, plan, input).rows();
}

}  // namespace linkwise
