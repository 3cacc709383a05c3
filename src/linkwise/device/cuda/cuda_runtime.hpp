// Real GPUs through the CUDA runtime.
//
// One thread enqueues; a submitter thread per device issues the CUDA calls, so that eight devices are fed in
// parallel. The timeline comes from events that are recorded around every timed operation. Uses primary contexts,
// leaves the current device of the caller's threads as it was, and never resets a device.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "linkwise/device/arena.hpp"
#include "linkwise/device/cuda/submitter.hpp"
#include "linkwise/device/runtime.hpp"

namespace linkwise {

class CudaRuntime final : public Runtime {
 public:
  /// `machine` describes the devices that CUDA shows, in CUDA's order. @throws UsageError if it has another
  /// number of GPUs, DeviceError if CUDA cannot use them.
  CudaRuntime(Machine machine, std::shared_ptr<const Kernels> kernels, const std::function<void()>& load_kernels);
  ~CudaRuntime() override;

  const Machine& machine() const override { return topology_.machine(); }
  const Kernels& kernels() const override { return *kernels_; }
  bool simulated() const override { return false; }
  bool reach_each_other(std::span<const int> gpus) const override;
  bool is_mapped_for_peers(const MemoryView& view) const override;

  std::uint64_t available(Place place) override;
  std::uint64_t reserved(Place place) override;
  void set_memory_limit(std::uint64_t bytes_per_gpu) override;
  void reserve(Place place, std::uint64_t bytes) override;
  void trim() override;

  using Runtime::read_back;
  using Runtime::stream;
  Stream stream(Place place, std::string_view name, Priority priority) override;
  Event record(Stream stream, Site = Site::current()) override;
  void wait(Stream stream, Event event, Site = Site::current()) override;
  Flag flag(std::string_view name) override;
  void set(Stream stream, Flag flag, std::uint32_t value) override;
  void wait(Stream stream, Flag flag, std::uint32_t value, Site = Site::current()) override;
  void wait(Event event, Site = Site::current()) override;
  void synchronize(Site = Site::current()) override;
  void abandon() noexcept override;
  Stream foreign_stream(Place place, void* native) override;
  void flush(Site = Site::current()) override;
  std::shared_ptr<SharedEvent> share(Event event) override;
  std::shared_ptr<SharedEvent> record_foreign(Place place, void* native) override;
  void fetch(void* to, const MemoryView& from, SharedEvent& ready) override;
  void enqueue(Stream stream, Operation operation) override;
  void copy(Stream stream, const MemoryView& to, const MemoryView& from) override;
  void copy_pieces(Stream stream, std::span<const CopyPiece> pieces) override;
  void read_back(std::span<const ReadBack> reads, Site = Site::current()) override;

  void set_phase(std::string_view phase) override { phase_ = phase; }
  std::vector<TimelineEntry> timeline() override;
  void clear_timeline() override;
  Progress progress() const override { return {enqueued_.load(), finished_.load()}; }
  std::stop_token set_stop_token(std::stop_token token) override { return std::exchange(stop_, std::move(token)); }

 protected:
  MemoryView allocate_memory(Place place, std::uint64_t bytes, std::string_view label) override;
  void release_memory(const MemoryView& view) noexcept override;
  void take_memory_from(GpuMemory memory) override;

 private:
  struct Device;
  struct Lane;
  struct EventState;
  struct NativeSharedEvent;
  struct Timed;

  Device& device(Place place);
  Arena& arena(Place place);
  [[nodiscard]] int staging_threads() const;
  void post(Place place, std::function<void()> work, std::function<void()> always = {});
  TimelineEntry copy_entry(std::span<const CopyPiece> pieces);
  void submit(Stream stream, TimelineEntry entry, std::function<void(cudaStream_t)> work, bool is_timed = true);
  void check_submitters();
  void wait_until_recorded(const EventState& event);

  Topology topology_;
  std::shared_ptr<const Kernels> kernels_;
  std::uint64_t memory_limit_ = 0;
  GpuMemory memory_;                              // an engine's pool, or empty
  std::vector<std::unique_ptr<Device>> devices_;  // the GPUs, then the host
  std::vector<Lane> lanes_;
  std::vector<std::shared_ptr<EventState>> events_;
  std::unique_ptr<Arena> pinned_;
  std::vector<std::uint32_t*> flags_;
  std::vector<std::unique_ptr<Timed>> timed_;
  std::chrono::steady_clock::time_point epoch_;
  std::string phase_ = "work";
  std::atomic<std::uint64_t> enqueued_ = 0, finished_ = 0;
  std::stop_token stop_;
  bool is_quiet_ = false;  // nothing has been posted since everything had run
};

}  // namespace linkwise
