// What samples of both sides say of keys with many rows.
#pragma once

#include <span>
#include <vector>

#include "linkwise/join/device_join_sides.hpp"

namespace linkwise {

struct JoinSkew {
  double build_rows = 0;   ///< of the most frequent key of the build side; 0 if none was seen often
  double probe_share = 0;  ///< of the probing side's rows, that of its most frequent key
  double pairs = 0;        ///< of the two sides; 0 if samples have hardly any
};

/// Samples, on their own streams behind what the given ones hold: they are compared while these go on.
class SkewSamples {
 public:
  /// Enqueues taking and comparing them.
  SkewSamples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build, const DeviceSide& probe);

  /// Blocks until that is done.
  JoinSkew skew();

 private:
  MemoryView allocate(Place place, std::uint64_t bytes);
  MemoryView brought_together(std::span<const Stream> samplers, const DeviceSide& side);

  Runtime& runtime_;
  std::uint64_t build_rows_, probe_rows_, build_samples_ = 0, probe_samples_ = 0;
  Stream comparer_;
  MemoryView seen_;
  std::vector<Buffer> memory_;
};

}  // namespace linkwise
