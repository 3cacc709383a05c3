#include "linkwise/join/replicate.hpp"

#include <vector>

namespace linkwise {

// Each GPU copies its own part first, and the others read it from that copy: they may have no access to the caller's
// memory.
void replicate(Runtime& runtime, Router& router, std::span<const Stream> streams, const DeviceSide& side,
               std::span<const Records> copies) {
  const auto part_of = [&](const Records& copy, std::size_t part) {
    return copy.slice(side.first_rows[part], side.records[part].count);
  };
  std::vector<Event> there;
  for (std::size_t g = 0; g < streams.size(); ++g) {
    Records own = side.records[g];
    own.type = copies[g].type;
    router.copy(streams[g], part_of(copies[g], g), own);
    there.push_back(runtime.record(streams[g]));
  }
  for (std::size_t g = 0; g < streams.size(); ++g)
    for (std::size_t step = 1; step < streams.size(); ++step) {  // so that each GPU copies from a different one
      const std::size_t part = (g + step) % streams.size();
      runtime.wait(streams[g], there[part]);
      router.copy(streams[g], part_of(copies[g], part), part_of(copies[part], part));
    }
}

}  // namespace linkwise
