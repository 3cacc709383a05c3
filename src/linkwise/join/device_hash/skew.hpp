// What samples of both sides say of keys with many rows.
#pragma once

#include <memory>
#include <span>

#include "linkwise/join/device_join_sides.hpp"

namespace linkwise {

struct JoinSkew {
  double build_rows = 0;   ///< of the most frequent key of the build side; 0 if none was seen often
  double probe_share = 0;  ///< of the probing side's rows, that of its most frequent key
  double pairs = 0;        ///< of the two sides; 0 if samples have hardly any
};

/// Samples, on their own streams behind what the given ones hold: the host looks at them while these go on.
class SkewSamples {
 public:
  /// Enqueues taking them. The sides must outlive it.
  SkewSamples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build, const DeviceSide& probe);
  SkewSamples(const SkewSamples&) = delete;
  SkewSamples& operator=(const SkewSamples&) = delete;
  ~SkewSamples();

  /// Blocks until they are there.
  JoinSkew skew();

 private:
  class OfSide;
  Runtime& runtime_;
  std::unique_ptr<OfSide> build_, probe_;
};

}  // namespace linkwise
