// The CUDA runtime's handling of foreign streams, which belong to other software.
#include "linkwise/device/cuda/cuda_runtime_parts.hpp"

#include <utility>

#include "linkwise/device/cuda/current_device.hpp"

namespace linkwise {

Stream CudaRuntime::foreign_stream(Place place, void* native) {
  (void)device(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].is_foreign && lanes_[s].place == place && *lanes_[s].native == native)
      return {static_cast<int>(s), place};
  lanes_.push_back({"caller", place, true});
  *lanes_.back().native = static_cast<cudaStream_t>(native);
  return {static_cast<int>(lanes_.size()) - 1, place};
}

void CudaRuntime::flush(Site) {
  std::vector<std::shared_ptr<std::atomic<bool>>> submitted;
  for (const auto& each : devices_) {
    auto flag = submitted.emplace_back(std::make_shared<std::atomic<bool>>(false));
    post(each->place, {}, [flag] {
      flag->store(true, std::memory_order_release);
      flag->notify_all();
    });
  }
  for (const auto& flag : submitted) flag->wait(false, std::memory_order_acquire);
  check_submitters();
}

struct CudaRuntime::NativeSharedEvent : SharedEvent {
  explicit NativeSharedEvent(std::shared_ptr<EventState> of) : state(std::move(of)) {}
  void hold(void* native_stream) override {
    state->recorded.wait(false, std::memory_order_acquire);
    if (state->event == nullptr) return;
    const CurrentDevice current(state->place.index);  // the stream may be its default stream
    check(cudaStreamWaitEvent(static_cast<cudaStream_t>(native_stream), state->event), "wait for event");
  }
  void wait() override {
    state->recorded.wait(false, std::memory_order_acquire);
    if (state->event != nullptr) check(cudaEventSynchronize(state->event), "wait for event");
  }
  std::shared_ptr<EventState> state;
};

std::shared_ptr<SharedEvent> CudaRuntime::share(Event event) {
  return std::make_shared<NativeSharedEvent>(events_.at(event.id));
}

std::shared_ptr<SharedEvent> CudaRuntime::record_foreign(Place place, void* native) {
  auto state = std::make_shared<EventState>();
  state->place = place;
  const CurrentDevice current(place.index);
  check(cudaEventCreateWithFlags(&state->event, cudaEventDisableTiming), "create event");
  check(cudaEventRecord(state->event, static_cast<cudaStream_t>(native)), "record event");
  state->recorded = true;
  return std::make_shared<NativeSharedEvent>(std::move(state));
}

void CudaRuntime::fetch(void* to, const MemoryView& from, SharedEvent& ready) {
  ready.wait();
  check(cudaMemcpy(to, from.data, from.bytes, cudaMemcpyDefault), "copy to the host");
}

}  // namespace linkwise
