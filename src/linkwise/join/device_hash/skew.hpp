// What samples of both sides say of keys with many rows.
#pragma once

#include <cstdint>
#include <span>

#include "linkwise/join/device_join_sides.hpp"

namespace linkwise {

struct JoinSkew {
  double build_rows = 0;   ///< of the most frequent key of the build side; 0 if none was seen often
  double probe_share = 0;  ///< of the probing side's rows, that of its most frequent key
  double pairs = 0;        ///< of the keys that are frequent on both sides
};

/// Blocks until the samples are there.
JoinSkew sample_skew(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build,
                     const DeviceSide& probe);

}  // namespace linkwise
