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

/// counts[s][d] records go from source s to destination d; the result says where in d's array they begin:
/// source after source, which keeps a stable partition stable.
std::vector<std::vector<std::uint64_t>> receive_offsets(const std::vector<std::vector<std::uint64_t>>& counts);

/// Ships everything by copy engines, when all of `ready` has happened: an event behind whoever made what is shipped,
/// and behind whoever used where it goes. Every (source, destination) pair has a stream of its own, so that all links
/// work at once. Returns an event for each shipment that is not empty.
std::vector<Event> exchange_by_copies(Runtime& runtime, Router& router, std::span<const Shipment> shipments,
                                      std::span<const Event> ready);

}  // namespace linkwise
