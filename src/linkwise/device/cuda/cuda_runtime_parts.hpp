// The parts of a CudaRuntime, for its own source files.
#pragma once

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda_runtime.hpp"
#include "linkwise/device/cuda/staging.hpp"

namespace linkwise {

using Clock = std::chrono::steady_clock;
inline constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

// A CUDA event or, without one, an event of the host's own stream, which has happened once `recorded` is set.
struct CudaRuntime::EventState {
  Place place;
  cudaEvent_t event = nullptr;
  std::atomic<bool> recorded = false;

  ~EventState() {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
};

struct CudaRuntime::Lane {
  std::string name;
  Place place;
  bool is_foreign = false;
  std::shared_ptr<cudaStream_t> native = std::make_shared<cudaStream_t>(nullptr);
  std::shared_ptr<StagingRing> staging;  // made by the first copy from or to pageable memory
};

// An operation with the events around it; on the host's stream, with times instead.
struct CudaRuntime::Timed {
  TimelineEntry entry;
  cudaEvent_t start = nullptr, end = nullptr;
  Clock::time_point host_start, host_end;
};

struct CudaRuntime::Device {
  Place place;
  std::vector<bool> reaches;  // by GPU: whether kernels here can load from and store to its memory
  std::unique_ptr<Arena> arena;
  std::vector<cudaEvent_t> spare_events;  // used by the submitter only
  cudaEvent_t base = nullptr;             // recorded on the device at `epoch_`
  std::unique_ptr<Submitter> submitter;   // last: its jobs use the others

  cudaEvent_t take_event() {
    if (spare_events.empty()) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "create event");
      return event;
    }
    const cudaEvent_t event = spare_events.back();
    spare_events.pop_back();
    return event;
  }
};

}  // namespace linkwise
