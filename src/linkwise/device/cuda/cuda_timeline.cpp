// The CUDA runtime's timeline, from the events around operations.
#include "linkwise/device/cuda/cuda_runtime_parts.hpp"

#include <algorithm>

namespace linkwise {

std::vector<TimelineEntry> CudaRuntime::timeline() {
  synchronize();
  const auto picoseconds = [&](Clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t - epoch_).count() * 1000;
  };
  std::vector<TimelineEntry> entries;
  for (const auto& timed : timed_) {
    TimelineEntry entry = timed->entry;
    if (timed->start == nullptr) {
      entry.start_ps = picoseconds(timed->host_start);
      entry.end_ps = picoseconds(timed->host_end);
    } else {
      const cudaEvent_t base = device(entry.place).base;
      float start_ms = 0, end_ms = 0;
      check(cudaEventElapsedTime(&start_ms, base, timed->start), "read event");
      check(cudaEventElapsedTime(&end_ms, base, timed->end), "read event");
      entry.start_ps = static_cast<std::int64_t>(static_cast<double>(start_ms) * 1e9);
      entry.end_ps = static_cast<std::int64_t>(static_cast<double>(end_ms) * 1e9);
    }
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, &TimelineEntry::start_ps);
  return entries;
}

void CudaRuntime::clear_timeline() {
  synchronize();
  for (auto& timed : timed_)
    if (timed->start != nullptr) {
      auto& spare = device(timed->entry.place).spare_events;  // the submitters are idle: everything has run
      spare.insert(spare.end(), {timed->start, timed->end});
    }
  timed_.clear();
  events_.clear();
  enqueued_ = finished_ = 0;
  // The base events of all devices mark the same moment: nothing runs, so recording them takes microseconds. They are
  // renewed after a second, since elapsed times are milliseconds with 24 bits of precision.
  const bool has_bases = epoch_ != Clock::time_point();
  if (has_bases && Clock::now() - epoch_ < std::chrono::seconds(1)) return;
  epoch_ = Clock::now();
  for (auto& each : devices_)
    if (each->place.is_gpu()) {
      const Stream base = stream(each->place, "clock");
      post(each->place, [target = each.get(), native = lanes_[base.id].native] {
        check(cudaEventRecord(target->base, *native), "record event");
        check(cudaEventSynchronize(target->base), "record event");
      });
    }
  synchronize();
}

}  // namespace linkwise
