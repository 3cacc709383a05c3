// Finds conflicting accesses that nothing orders, by vector clocks over the streams and the host.
//
// The virtual runtime feeds it every executed operation in execution order. An ordering, if there is one, shows in
// the clocks whatever the execution order was. So a missing event is found with every seed: of two unordered
// operations, the one executed second meets the recorded access of the first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace linkwise {

/// clock[s] = number of operations of stream s that happened before (or are) the owner.
using VectorClock = std::vector<std::int64_t>;

void join(VectorClock& clock, const VectorClock& other);

class RaceDetector {
 public:
  /// An access by an operation: which one, its stream and its number on that stream (from 1).
  struct Access {
    int stream = 0;
    std::int64_t number = 0;
    std::int64_t operation = 0;
  };

  /// Returns the operation that this access races with, if any, and remembers the access.
  std::optional<std::int64_t> read(std::uintptr_t begin, std::uintptr_t end, const Access& access,
                                   const VectorClock& clock);
  std::optional<std::int64_t> write(std::uintptr_t begin, std::uintptr_t end, const Access& access,
                                    const VectorClock& clock);
  /// Forgets a freed range; returns an operation on it, if any, that does not happen before `clock`.
  std::optional<std::int64_t> forget(std::uintptr_t begin, std::uintptr_t end, const VectorClock& clock);

 private:
  struct History {
    std::uintptr_t end = 0;
    std::optional<Access> write;
    std::vector<Access> reads;  // the latest of each stream
  };
  using Ranges = std::map<std::uintptr_t, History>;

  Ranges::iterator split(std::uintptr_t at);
  static bool ordered(const Access& access, const VectorClock& clock);
  std::optional<std::int64_t> conflict_with_all(std::uintptr_t begin, std::uintptr_t end, const VectorClock& clock);

  Ranges ranges_;  // disjoint, by begin
};

}  // namespace linkwise
