// Reliable measurements: times and verifies patterns of transfers, and times work on one device.
//
// Rules after Comm|Scope (commscope19 §3): a warm-up first; times from events on a time base common to all devices;
// repetitions until the coefficient of variation is at most 2 % or the time limit is reached, then the median with
// that spread; and the received data is compared with the data that was sent. On a virtual machine the same calls
// return the model's prediction, so a prediction is a simulation of the same benchmark that measures it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/probe/host_pool.hpp"
#include "linkwise/probe/measure.hpp"

namespace linkwise {

/// One of the transfers of a pattern. All of them start at once.
struct Transfer {
  Place from;
  Place to;
  std::uint64_t bytes = 0;
  bool pageable = false;          ///< the host's end is pageable memory
  std::vector<int> over;          ///< GPUs that relay it in chunks, in order
  std::uint64_t relay_bytes = 0;  ///< chunk size of the relays; `bytes` for store-and-forward; 0: a default
};

class Prober {
 public:
  /// Repeats each measurement for at most `patience_seconds`, but at least three times.
  /// With a pool, large copies between GPUs and pinned host memory use its windows instead of memory of their own.
  Prober(Runtime& runtime, double patience_seconds, const HostPool* pool = nullptr)
      : runtime_(runtime), patience_(patience_seconds), pool_(pool) {}

  /// @throws CorruptDataError naming the transfer whose received data is not what was sent.
  Measurement transfers(std::span<const Transfer> pattern);
  /// The time of each of many back-to-back copies of 4 bytes.
  Measurement smallest_copy(Place from, Place to);
  /// Times the work that `enqueue` puts on a stream of `place`.
  Measurement work(Place place, const std::function<void(Stream)>& enqueue);

 private:
  Measurement repeat(const std::function<void()>& enqueue, int rotations = 0);

  Runtime& runtime_;
  double patience_;
  const HostPool* pool_;
  std::uint64_t patterns_ = 0;
};

}  // namespace linkwise
