// The single all-to-all exchange of a radix sort: chooses splitters, counts records, and moves each to its part.
//
// A part consists of the records between two neighbouring splitters; each GPU owns one or several neighbouring parts.
// A part receives the sources one after the other, each in its own order, so the exchange is stable.
#pragma once

#include <span>
#include <vector>

#include "linkwise/sort/exchange/exchange_input.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

class RadixExchange {
 public:
  /// Chooses the sources' splitters and counts the records of each part; blocks until the counts are known.
  /// @throws UsageError for more parts than a partition can have.
  RadixExchange(Runtime& runtime, const SortPlan& plan, std::vector<ExchangeInput> sources, int parts);

  [[nodiscard]] int parts() const { return parts_; }
  [[nodiscard]] std::uint64_t received(int part) const { return received_[static_cast<std::size_t>(part)]; }
  /// The bits in which the keys of a part can differ.
  [[nodiscard]] BitRange bits(int part) const;

  /// Each source's partition kernel stores straight into the parts, which may be on any GPU that it can write to.
  /// Returns an event for each source, after its last store.
  std::vector<Event> store(std::span<const Records> to);
  /// Partitions each source into `partitioned` on its own GPU, and ships the parts by copy engines once all sources
  /// are partitioned; so `to` may overlap the sources. Returns an event for each shipment that is not empty.
  std::vector<Event> partition_and_copy(Router& router, std::span<const Records> partitioned,
                                        std::span<const Records> to);

 private:
  Runtime& runtime_;
  std::vector<ExchangeInput> sources_;
  int parts_;
  std::vector<Cut> cuts_;
  std::vector<std::vector<std::uint64_t>> counts_;   // [source][part]
  std::vector<std::vector<std::uint64_t>> offsets_;  // [source][part], in the part
  std::vector<std::uint64_t> received_;              // [part]
};

}  // namespace linkwise
