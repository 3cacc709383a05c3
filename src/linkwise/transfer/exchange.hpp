// The all-to-all: every device sends a part of its records to every other, once.
#pragma once

#include <span>
#include <vector>

#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Records that go from one place to another.
struct Shipment {
  Records from;
  Records to;
};

/// counts[s][d] records go from source s to destination d. Returns where in d's array they begin: in the order of the
/// sources, which keeps a stable partition stable.
std::vector<std::vector<std::uint64_t>> receive_offsets(const std::vector<std::vector<std::uint64_t>>& counts);

/// Copies all shipments by copy engines, after all events in `ready`. These must cover the work that makes the
/// records and the last use of their destinations. Every (source, destination) pair has a stream of its own, so that
/// all links are used at once. Returns an event for each shipment that is not empty.
std::vector<Event> exchange_by_copies(Runtime& runtime, Router& router, std::span<const Shipment> shipments,
                                      std::span<const Event> ready);

}  // namespace linkwise
