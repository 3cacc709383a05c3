// The common base of the in-core joins for totals and for rows: streams, columns, and the steps up to sorted
// relations.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "linkwise/join/in_core/relation.hpp"
#include "linkwise/join/in_core/relation_exchange.hpp"
#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// The number of batches in which the probe side is streamed through the GPUs.
std::uint64_t batches_of(const JoinPlan& plan, JoinKind kind);
constexpr std::size_t most_passing = 4;  ///< batches on the GPUs at once; the first ones wait for the build side

class InCoreJoin {
 protected:
  InCoreJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

  [[nodiscard]] std::size_t gpus() const { return compute_.size(); }
  [[nodiscard]] const Kernels& kernels() const { return runtime_.kernels(); }

  /// Starts to copy the batches in, and meanwhile chooses the splitters and how the relations are sorted.
  void begin(const HostIo& split, const HostIo& whole, std::span<const Batch> batches, double weight_of_match);
  /// Allocates memory to sort and probe up to this many records of each type. To be called once per GPU, in order.
  void make_room_to_sort(std::size_t gpu, std::span<const std::pair<RecordType, std::uint64_t>> sorted);
  /// Sorts what has been received, on the sorting streams.
  void sort(std::size_t batch, Relation& relation);
  /// Copies rows of keys that are split over several GPUs to those that borrow them, on the sorting streams.
  void borrow(Relation& whole);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  Router router_;
  SortOptions options_;
  HostIo left_io_, right_io_;
  std::vector<Stream> compute_, sorting_;
  JoinSplitters cuts_;
  bool split_by_msd_ = false, whole_by_msd_ = false;
  std::vector<Buffer> scratch_, spare_, sort_scratch_;
  std::unique_ptr<RelationExchange> arrival_;
};

}  // namespace linkwise
