#include "linkwise/join/in_core/in_core_base.hpp"

#include <algorithm>

#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {

std::uint64_t batches_of(const JoinPlan& plan, JoinKind kind) {
  // A full join counts the matched rows of both sides, so both must be on the GPUs as a whole.
  return kind == JoinKind::full ? 1 : static_cast<std::uint64_t>(std::max(plan.batches, 1));
}

InCoreJoin::InCoreJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input)
    : runtime_(runtime),
      plan_(plan),
      input_(input),
      router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
      options_{.verify = input.verify, .as_joined = true},
      left_io_(runtime, router_, input.left, options_),
      right_io_(runtime, router_, input.right, options_) {
  for (const int gpu : plan.sort.gpus) {
    compute_.push_back(runtime.stream(Place::gpu(gpu), "compute"));
    sorting_.push_back(runtime.stream(Place::gpu(gpu), "sort", Priority::background));
  }
}

void InCoreJoin::begin(const HostIo& split, const HostIo& whole, std::span<const Batch> batches,
                       double weight_of_match) {
  std::vector<MemoryView> partition_scratch;
  std::uint64_t bytes = 0;
  for (const Batch& batch : batches) {
    const RecordType type = batch.io->record_type();
    const std::uint64_t rows = RelationExchange::piece_rows(plan_.sort, type, batch.count);
    bytes = std::max(bytes, kernels().partition_scratch_bytes(type, rows, static_cast<int>(gpus())));
  }
  for (std::size_t g = 0; g < gpus(); ++g) {
    scratch_.push_back(runtime_.allocate(compute_[g].place, bytes, "partition scratch"));
    partition_scratch.push_back(scratch_.back().view());
  }
  arrival_ = std::make_unique<RelationExchange>(runtime_, plan_.sort, batches, partition_scratch, input_.verify);
  arrival_->start();
  const SampledRelation of_split = sampled(split, compute_), of_whole = sampled(whole, compute_);
  cuts_ =
      choose_join_cuts(runtime_, split.key_type(), of_split, of_whole, gpus(), join_samples(plan_), weight_of_match);
  split_by_msd_ = suits_msd_sort(runtime_, split.key_type(), of_split, split.record_type(), gpus());
  whole_by_msd_ = suits_msd_sort(runtime_, whole.key_type(), of_whole, whole.record_type(), gpus());
}

void InCoreJoin::make_room_to_sort(std::size_t gpu, std::span<const std::pair<RecordType, std::uint64_t>> sorted) {
  std::uint64_t spare = 0, scratch = 0;
  for (const auto& [type, count] : sorted) {
    spare = std::max(spare, record_bytes(type, count));
    scratch =
        std::max({scratch, local_sort_scratch_bytes(kernels(), type, count), matching_scratch_bytes(kernels(), count)});
  }
  spare_.push_back(runtime_.allocate(compute_[gpu].place, spare, "spare records"));
  sort_scratch_.push_back(runtime_.allocate(compute_[gpu].place, scratch, "sort scratch"));
}

void InCoreJoin::sort(std::size_t batch, Relation& relation) {
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

void InCoreJoin::borrow(Relation& whole) {
  runtime_.set_phase("borrow");
  whole.borrow(cuts_, sorting_, router_);
}

}  // namespace linkwise
