#include <algorithm>
#include <utility>

#include "linkwise/join/in_core/in_core_base.hpp"
#include "linkwise/join/in_core/in_core_join.hpp"
#include "linkwise/join/in_core/join_output.hpp"

namespace linkwise {
namespace {

class RowsJoin : InCoreJoin {
 public:
  RowsJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) : InCoreJoin(runtime, plan, input) {}

  std::uint64_t run(const MakeOutputs& outputs) {
    const Batch left{&left_io_, true, 0, left_io_.rows()}, right{&right_io_, false, 0, right_io_.rows()};
    const bool left_first = left.count >= right.count;
    const Batch batches[] = {left_first ? left : right, left_first ? right : left};
    begin(left_io_, right_io_, batches, /*weight_of_match=*/1);
    Relation left_side(runtime_, compute_, left_io_.record_type(), cuts_.split_room, split_by_msd_);
    Relation right_side(runtime_, compute_, right_io_.record_type(), cuts_.whole_room, whole_by_msd_);
    for (std::size_t g = 0; g < gpus(); ++g) {
      const std::pair<RecordType, std::uint64_t> sorted[] = {
          {left_io_.record_type(), cuts_.split_room[g].rows},
          {right_io_.record_type(), Relation::most_rows(cuts_.whole_room[g])}};
      make_room_to_sort(g, sorted);
    }
    Relation* const in_order[] = {left_first ? &left_side : &right_side, left_first ? &right_side : &left_side};
    for (std::size_t b = 0; b < 2; ++b) {
      arrival_->receive(b, cuts_, in_order[b]->parts());
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
    const JoinOutputs to = outputs(rows);
    output.write(to);
    runtime_.synchronize();
    hand_back(runtime_, views_of(to, input_, rows));
    return rows;
  }
};

}  // namespace

std::uint64_t in_core_rows(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, const MakeOutputs& outputs) {
  return RowsJoin(runtime, plan, input).run(outputs);
}

}  // namespace linkwise
