// Key skew, estimated from samples of both sides.
#pragma once

#include <span>
#include <vector>

#include "linkwise/join/device_join_sides.hpp"

namespace linkwise {

struct JoinSkew {
  double build_rows = 0;   ///< of the build side's most frequent key; 0 if no key was sampled often
  double probe_share = 0;  ///< fraction of the probe side's rows that have its most frequent key
  double pairs = 0;        ///< of matching rows; 0 if the samples have hardly any
  double hot_share = 0;    ///< fraction of the probe side's rows whose key is frequent enough to be sampled repeatedly
};

/// Takes and compares samples on streams of its own, after the work already queued on the given streams and
/// concurrently with their later work.
class SkewSamples {
 public:
  /// Enqueues the sampling and the comparison.
  SkewSamples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build, const DeviceSide& probe);

  /// Blocks until the comparison is done.
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
