#include <algorithm>
#include <memory>
#include <utility>

#include "linkwise/join/in_core/in_core_base.hpp"
#include "linkwise/join/in_core/in_core_join.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {
namespace {

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
    const std::uint64_t wanted = batches_of(plan_, input_.kind);
    for (std::uint64_t b = 0; b < wanted; ++b) {
      const std::uint64_t first = probing_.rows() * b / wanted, end = probing_.rows() * (b + 1) / wanted;
      if (end > first || b == 0) batches.push_back({&probing_, true, first, end - first});
    }
    begin(probing_, resident_, batches, /*weight_of_match=*/0);
    make_room(batches);
    arrival_->receive(0, cuts_, resident_side_->parts());
    sort(0, *resident_side_);
    borrow(*resident_side_);
    make_sums();
    for (std::size_t b = 1; b < batches.size(); ++b) pass(b);
    if (input_.kind == JoinKind::full) probe_back();
    return finish(batches.size());
  }

 private:
  // Rows of the largest probe batch: if the input is ordered, a whole batch may belong to one GPU.
  [[nodiscard]] std::uint64_t most_of(std::span<const Batch> batches) const {
    std::uint64_t most = 0;
    for (const Batch& batch : batches.subspan(1)) most = std::max(most, batch.count);
    return most;
  }

  void make_room(std::span<const Batch> batches) {
    const RecordType type = probing_.record_type();
    resident_side_ =
        std::make_unique<Relation>(runtime_, compute_, resident_.record_type(), cuts_.whole_room, whole_by_msd_);
    std::vector<PartRoom> room = cuts_.split_room;
    if (batches.size() > 2)
      for (PartRoom& part : room) part.rows = std::min(part.rows, most_of(batches));
    for (std::size_t turn = 0; turn < std::min(batches.size() - 1, most_passing); ++turn)
      passing_.push_back(std::make_unique<Relation>(runtime_, compute_, type, room, split_by_msd_));
    probed_.assign(passing_.size(), std::vector<Event>(gpus()));
    for (std::size_t g = 0; g < gpus(); ++g) {
      const std::pair<RecordType, std::uint64_t> sorted[] = {
          {resident_.record_type(), Relation::most_rows(cuts_.whole_room[g])}, {type, room[g].rows}};
      make_room_to_sort(g, sorted);
      totals_.push_back(runtime_.allocate(compute_[g].place, sizeof(MatchTotals) * batches.size(), "totals"));
    }
  }

  // Prefix sums, from which the sum of the values of any range of rows follows at once.
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

  // Receives a batch, sorts it and probes with it, while the next one arrives.
  void pass(std::size_t batch) {
    const std::size_t turn = (batch - 1) % passing_.size();
    Relation& passing = *passing_[turn];
    passing.clear();
    // Each `compute` stream waits only for its own GPU's earlier probe. That suffices: before any GPU stores to
    // another one, the host reads back the counts of all (exchange_records), so all stores come after all of these
    // probes.
    for (std::size_t g = 0; g < gpus(); ++g) runtime_.wait(compute_[g], probed_[turn][g]);
    arrival_->receive(batch, cuts_, passing.parts());
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

  // Counts the matched rows of the resident side. Borrowed rows are left out: their owner counts them, and all match.
  void probe_back() {
    for (std::size_t g = 0; g < gpus(); ++g)
      probe(runtime_, sorting_[g], probe_of(resident_side_->own(g), passing_.front()->own(g)), sort_scratch_[g].view(),
            totals_of(g, 0));
  }

  [[nodiscard]] MemoryView totals_of(std::size_t gpu, std::size_t batch) const {
    return totals_[gpu].slice(sizeof(MatchTotals) * batch, sizeof(MatchTotals));
  }

  JoinTotals finish(std::size_t batches) {
    arrival_->verify();
    const bool both = input_.kind == JoinKind::full;
    // For each GPU: the totals of its resident side, then those of each batch.
    std::vector<std::vector<MatchTotals>> found(gpus(), std::vector<MatchTotals>(batches));
    const JoinCounts expected = expected_counts(input_);
    std::vector<MatchTotals> expectation(batches, expected_totals(expected, left_probes_, gpus() * (batches - 1)));
    expectation.front() = expected_totals(expected, !left_probes_, gpus());
    const std::size_t first = both ? 0 : 1;
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus(); ++g)
      reads.push_back({sorting_[g],
                       totals_[g].slice(sizeof(MatchTotals) * first, sizeof(MatchTotals) * (batches - first)),
                       &found[g][first], &expectation[first]});
    runtime_.read_back(reads);
    runtime_.synchronize();  // nothing may still use the memory that is freed now
    JoinCounts counts;
    for (const auto& of_gpu : found) {
      counts += counts_of(left_probes_, {}, of_gpu.front());
      for (std::size_t b = 1; b < batches; ++b) counts += counts_of(left_probes_, of_gpu[b], {});
    }
    return linkwise::totals_of(input_.kind, counts, input_.left.count, input_.right.count);
  }

  bool left_probes_;
  const HostIo &probing_, &resident_;
  bool sums_;
  std::unique_ptr<Relation> resident_side_;
  std::vector<std::unique_ptr<Relation>> passing_;  // buffers for batches, used in turn
  std::vector<std::vector<Event>> probed_;          // [turn][GPU]
  std::vector<Buffer> totals_, build_sums_;
};

}  // namespace

JoinTotals in_core_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  return TotalsJoin(runtime, plan, input).run();
}

}  // namespace linkwise
