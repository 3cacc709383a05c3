// What joining totals and joining rows in core have in common: streams, columns, and the steps up to sorted relations.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "linkwise/join/in_core/relation.hpp"
#include "linkwise/join/in_core/relation_exchange.hpp"
#include "linkwise/join/join_plan.hpp"

namespace linkwise {

/// In how many batches the probing side passes by.
std::uint64_t batches_of(const JoinPlan& plan, JoinKind kind);
constexpr std::size_t most_passing = 4;  ///< batches on the GPUs: the first ones wait until the other side is sorted

class InCoreJoin {
 protected:
  InCoreJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input);

  [[nodiscard]] std::size_t gpus() const { return compute_.size(); }
  [[nodiscard]] const Kernels& kernels() const { return runtime_.kernels(); }

  /// Begins to bring the batches in, and meanwhile looks for the cuts.
  void begin(const HostIo& split, const HostIo& whole, std::span<const Batch> batches, double weight_of_match);
  /// Allocates what sorting and probing up to so many records of each type takes on a GPU; once for each GPU, in order.
  void make_room_to_sort(std::size_t gpu, std::span<const std::pair<RecordType, std::uint64_t>> sorted);
  /// Sorts what has been received, on the sorting streams.
  void sort(std::size_t batch, Relation& relation);
  /// Lends the rows of keys that are cut, on the sorting streams.
  void borrow(Relation& whole);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  Router router_;
  SortOptions options_;
  HostIo left_io_, right_io_;
  std::vector<Stream> compute_, sorting_;
  JoinSplitters cuts_;
  std::vector<Buffer> scratch_, spare_, sort_scratch_;
  std::unique_ptr<RelationExchange> arrival_;
};

}  // namespace linkwise
