// Measuring without fooling oneself: patterns of transfers, and work on one device, timed and verified.
//
// Rules after Comm|Scope (commscope19 §3): a warm-up first; times from events, which all devices count from the same
// moment; repetitions until the coefficient of variation is at most 2 % or patience ends, then the median with that
// spread; and what arrived is compared with what was sent. On a virtual machine the same calls give what the model
// predicts, so a prediction is the simulation of the very benchmark that measures it.
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
  bool pageable = false;          ///< the host's end is ordinary memory
  std::vector<int> over;          ///< GPUs on the way, which relay it in chunks
  std::uint64_t relay_bytes = 0;  ///< of such a chunk, as all of the bytes to store and then forward; 0: a good size
};

class Prober {
 public:
  /// Repeats each measurement for that long at most, but three times at least.
  /// Large copies between GPUs and the host's page-locked memory go through the pool's windows instead, if there is
  /// one.
  Prober(Runtime& runtime, double patience_seconds, const HostPool* pool = nullptr)
      : runtime_(runtime), patience_(patience_seconds), pool_(pool) {}

  /// @throws CorruptDataError naming the transfer whose data is not what was sent.
  Measurement transfers(std::span<const Transfer> pattern);
  /// Of the smallest copy: what each of many in a row takes.
  Measurement smallest_copy(Place from, Place to);
  /// Of work that `enqueue` puts on a stream of the place.
  Measurement work(Place place, const std::function<void(Stream)>& enqueue);

 private:
  Measurement repeat(const std::function<void()>& enqueue, int rotations = 0);

  Runtime& runtime_;
  double patience_;
  const HostPool* pool_;
  std::uint64_t patterns_ = 0;
};

}  // namespace linkwise
