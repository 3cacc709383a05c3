#include "linkwise/transfer/exchange.hpp"

namespace linkwise {

std::vector<std::vector<std::uint64_t>> receive_offsets(const std::vector<std::vector<std::uint64_t>>& counts) {
  auto offsets = counts;
  const std::size_t destinations = counts.empty() ? 0 : counts.front().size();
  for (std::size_t d = 0; d < destinations; ++d) {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      offsets[s][d] = sum;
      sum += counts[s][d];
    }
  }
  return offsets;
}

std::vector<Event> exchange_by_copies(Runtime& runtime, Router& router, std::span<const Shipment> shipments,
                                      std::span<const Event> ready) {
  std::vector<Event> sent;
  for (const Shipment& shipment : shipments) {
    if (shipment.to.count == 0) continue;
    const Stream stream = runtime.stream(shipment.from.place(), "to " + shipment.to.place().name());
    for (const Event event : ready) runtime.wait(stream, event);
    router.copy(stream, shipment.to, shipment.from);
    sent.push_back(runtime.record(stream));
  }
  return sent;
}

}  // namespace linkwise
