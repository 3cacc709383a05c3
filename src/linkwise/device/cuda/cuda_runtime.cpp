#include "linkwise/device/cuda/cuda_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/device/cuda/staging.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {
namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t small_reads_bytes = 8 << 20;  // pinned, so that reading small results back allocates nothing
using Clock = std::chrono::steady_clock;

}  // namespace

// An event of CUDA, or of the host's own stream, where `happened` says it all.
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
  std::unique_ptr<Arena> arena;
  std::vector<cudaEvent_t> spare_events;  // used by the submitter only
  cudaEvent_t base = nullptr;             // the device's moment `epoch_`
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

CudaRuntime::CudaRuntime(Machine machine, std::unique_ptr<Kernels> kernels)
    : topology_(std::move(machine)), kernels_(std::move(kernels)) {
  std::string why;
  const int gpus = count_cuda_gpus(&why);
  if (gpus == 0) throw DeviceError("CUDA cannot be used: " + why);
  if (gpus != topology_.machine().num_gpus())
    throw UsageError("machine '" + topology_.machine().name + "' has " +
                     std::to_string(topology_.machine().num_gpus()) + " GPUs, CUDA shows " + std::to_string(gpus));
  int previous = 0;
  check(cudaGetDevice(&previous), "ask for the current device");
  for (int g = 0; g < gpus; ++g) {
    check(cudaSetDevice(g), "use device");
    check(cudaFree(nullptr), "make the primary context");
    for (int peer = 0; peer < gpus; ++peer) {
      int possible = 0;
      if (peer == g || cudaDeviceCanAccessPeer(&possible, g, peer) != cudaSuccess || possible == 0) continue;
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) (void)cudaGetLastError();
      else check(status, "enable peer access");
    }
    auto device = std::make_unique<Device>();
    device->place = Place::gpu(g);
    PhysicalMemory memory;
    memory.allocate = [g](std::uint64_t bytes) {
      void* data = nullptr;
      check(cudaSetDevice(g), "use device");
      check(cudaMalloc(&data, bytes),
            ("allocate " + std::to_string(bytes) + " bytes on GPU " + std::to_string(g)).c_str());
      return static_cast<std::byte*>(data);
    };
    memory.release = [](std::byte* data, std::uint64_t) { (void)cudaFree(data); };
    device->arena = std::make_unique<Arena>(device->place.name(), std::move(memory), device_alignment, unlimited);
    check(cudaEventCreate(&device->base), "create event");
    device->submitter = std::make_unique<Submitter>([g] { check(cudaSetDevice(g), "use device"); });
    devices_.push_back(std::move(device));
  }
  kernels_->load();
  check(cudaSetDevice(previous), "use device");
  auto host = std::make_unique<Device>();
  host->place = Place::host();
  host->submitter = std::make_unique<Submitter>([] {});
  devices_.push_back(std::move(host));
  PhysicalMemory pinned;
  auto blocks = std::make_shared<std::map<std::byte*, std::unique_ptr<PinnedMemory>>>();
  pinned.allocate = [blocks](std::uint64_t bytes) {
    auto block = std::make_unique<PinnedMemory>(bytes);
    std::byte* data = block->data();
    blocks->emplace(data, std::move(block));
    return data;
  };
  pinned.release = [blocks](std::byte* data, std::uint64_t) { blocks->erase(data); };
  pinned_ = std::make_unique<Arena>("pinned host memory", std::move(pinned), host_alignment, unlimited);
  pinned_->reserve(small_reads_bytes);
  clear_timeline();
}

CudaRuntime::~CudaRuntime() {
  for (auto& device : devices_) device->submitter.reset();  // runs what was posted
  drop_retired();
  for (const Lane& lane : lanes_)
    if (*lane.native != nullptr && !lane.is_foreign) {
      (void)cudaStreamSynchronize(*lane.native);
      (void)cudaStreamDestroy(*lane.native);
    }
  for (Lane& lane : lanes_) lane.staging.reset();  // before the memory that its threads look at
  for (const auto& timed : timed_)
    for (const cudaEvent_t event : {timed->start, timed->end})
      if (event != nullptr) (void)cudaEventDestroy(event);
  for (const auto& device : devices_) {
    for (const cudaEvent_t event : device->spare_events) (void)cudaEventDestroy(event);
    if (device->base != nullptr) (void)cudaEventDestroy(device->base);
  }
  for (std::uint32_t* flag : flags_) (void)cudaFreeHost(flag);
}

// A link is fed by a few cores; all links in one direction may be busy at once, and the other has rings of its own.
int CudaRuntime::staging_threads() const {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / (2 * machine().num_gpus()), 1, 8);
}

CudaRuntime::Device& CudaRuntime::device(Place place) {
  if (!place.is_gpu()) return *devices_.back();
  if (place.index < 0 || place.index >= static_cast<int>(devices_.size()) - 1)
    throw UsageError("there is no " + place.name() + "; this machine has " + std::to_string(devices_.size() - 1) +
                     " GPUs");
  return *devices_[place.index];
}

// ---- Memory

std::uint64_t CudaRuntime::available(Place place) {
  if (!place.is_gpu()) return unlimited;
  Device& target = device(place);
  int previous = 0;
  std::size_t free_bytes = 0, total = 0;
  check(cudaGetDevice(&previous), "ask for the current device");
  check(cudaSetDevice(place.index), "use device");
  check(cudaMemGetInfo(&free_bytes, &total), "ask for free memory");
  check(cudaSetDevice(previous), "use device");
  const std::uint64_t idle = target.arena->reserved() - target.arena->in_use();
  const std::uint64_t possible = free_bytes + idle;
  return memory_limit_ == 0 ? possible
                            : std::min(possible, memory_limit_ - std::min(memory_limit_, target.arena->in_use()));
}

void CudaRuntime::set_memory_limit(std::uint64_t bytes_per_gpu) {
  memory_limit_ = bytes_per_gpu;
  for (const auto& each : devices_)
    if (each->arena) each->arena->set_limit(bytes_per_gpu == 0 ? unlimited : bytes_per_gpu);
}

void CudaRuntime::reserve(Place place, std::uint64_t bytes) {
  int previous = 0;
  check(cudaGetDevice(&previous), "ask for the current device");
  (place.is_gpu() ? *device(place).arena : *pinned_).reserve(bytes);
  check(cudaSetDevice(previous), "use device");
}

void CudaRuntime::trim() {
  for (const auto& each : devices_)
    if (each->arena) each->arena->trim();
  pinned_->trim();
}

MemoryView CudaRuntime::allocate_memory(Place place, std::uint64_t bytes, std::string_view) {
  int previous = 0;
  check(cudaGetDevice(&previous), "ask for the current device");
  std::byte* data = (place.is_gpu() ? *device(place).arena : *pinned_).allocate(bytes);
  check(cudaSetDevice(previous), "use device");
  return {place, data, bytes, 1, false};
}

void CudaRuntime::release_memory(const MemoryView& view) noexcept {
  try {
    (view.place.is_gpu() ? *device(view.place).arena : *pinned_).release(view.data);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "linkwise: %s\n", error.what());
  }
}

// ---- Order

Stream CudaRuntime::stream(Place place, std::string_view name) {
  Device& target = device(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].place == place && lanes_[s].name == name && !lanes_[s].is_foreign)
      return {static_cast<int>(s), place};
  lanes_.push_back({std::string(name), place});
  if (place.is_gpu())
    target.submitter->post([native = lanes_.back().native] {
      check(cudaStreamCreateWithFlags(native.get(), cudaStreamNonBlocking), "create stream");
    });
  return {static_cast<int>(lanes_.size()) - 1, place};
}

Event CudaRuntime::record(Stream stream) {
  auto state = std::make_shared<EventState>();
  state->place = stream.place;
  events_.push_back(state);
  std::function<void()> work;
  if (stream.place.is_gpu())
    work = [state, native = lanes_.at(stream.id).native] {
      check(cudaEventCreateWithFlags(&state->event, cudaEventDisableTiming), "create event");
      check(cudaEventRecord(state->event, *native), "record event");
    };
  device(stream.place).submitter->post(std::move(work), [state] {
    state->recorded.store(true, std::memory_order_release);
    state->recorded.notify_all();
  });
  return {static_cast<std::int64_t>(events_.size()) - 1};
}

void CudaRuntime::wait(Stream stream, Event event) {
  if (event.id < 0) return;
  const auto state = events_.at(event.id);
  device(stream.place).submitter->post([state, stream, native = lanes_.at(stream.id).native] {
    state->recorded.wait(false, std::memory_order_acquire);  // its own submitter may be behind
    if (state->event == nullptr) return;                     // the host's: happened
    if (stream.place.is_gpu()) check(cudaStreamWaitEvent(*native, state->event), "wait for event");
    else check(cudaEventSynchronize(state->event), "wait for event");
  });
}

Flag CudaRuntime::flag(std::string_view) {
  std::uint32_t* memory = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&memory), sizeof *memory, cudaHostAllocPortable | cudaHostAllocMapped),
        "allocate flag");
  *memory = 0;
  flags_.push_back(memory);
  return {static_cast<int>(flags_.size()) - 1};
}

void CudaRuntime::set(Stream stream, Flag flag, std::uint32_t value) {
  std::uint32_t* memory = flags_.at(flag.id);
  device(stream.place).submitter->post([=, native = lanes_.at(stream.id).native] {
    if (!stream.place.is_gpu()) return std::atomic_ref(*memory).store(value, std::memory_order_release);
    driver::set_flag(*native, memory, value);
  });
}

void CudaRuntime::wait(Stream stream, Flag flag, std::uint32_t value) {
  std::uint32_t* memory = flags_.at(flag.id);
  device(stream.place).submitter->post([=, native = lanes_.at(stream.id).native] {
    if (stream.place.is_gpu()) return driver::wait_for_flag(*native, memory, value);
    while (std::atomic_ref(*memory).load(std::memory_order_acquire) < value) std::this_thread::yield();
  });
}

void CudaRuntime::check_submitters() {
  for (const auto& each : devices_) each->submitter->rethrow();
}

void CudaRuntime::wait_until_recorded(const EventState& event) {
  event.recorded.wait(false, std::memory_order_acquire);
  check_submitters();
}

void CudaRuntime::wait(Event event) {
  if (event.id < 0) return check_submitters();
  const auto state = events_.at(event.id);
  wait_until_recorded(*state);
  while (state->event != nullptr) {
    const cudaError_t status = cudaEventQuery(state->event);
    if (status == cudaSuccess) break;
    if (status != cudaErrorNotReady) check(status, "wait for the device");
    check_submitters();
    if (stop_.stop_requested()) throw Cancelled("stopped on request");
    std::this_thread::yield();
  }
}

void CudaRuntime::synchronize() {
  std::vector<Event> events;
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (!lanes_[s].is_foreign) events.push_back(record({static_cast<int>(s), lanes_[s].place}));
  for (const Event event : events) wait(event);
  check_submitters();
  release_retired();
}

void CudaRuntime::abandon() noexcept {
  const std::stop_token stop = std::exchange(stop_, {});  // or waiting would throw at once
  try {
    synchronize();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the devices have failed: nothing runs there
  }
  stop_ = stop;
}

// ---- Other software's streams

Stream CudaRuntime::foreign_stream(Place place, void* native) {
  (void)device(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].is_foreign && lanes_[s].place == place && *lanes_[s].native == native)
      return {static_cast<int>(s), place};
  lanes_.push_back({"caller", place, true});
  *lanes_.back().native = static_cast<cudaStream_t>(native);
  return {static_cast<int>(lanes_.size()) - 1, place};
}

void CudaRuntime::flush() {
  std::vector<std::shared_ptr<std::atomic<bool>>> submitted;
  for (const auto& each : devices_) {
    auto flag = submitted.emplace_back(std::make_shared<std::atomic<bool>>(false));
    each->submitter->post({}, [flag] {
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
    if (state->event != nullptr)
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
  int previous = 0;
  check(cudaGetDevice(&previous), "ask for the current device");
  check(cudaSetDevice(place.index), "use device");
  check(cudaEventCreateWithFlags(&state->event, cudaEventDisableTiming), "create event");
  check(cudaEventRecord(state->event, static_cast<cudaStream_t>(native)), "record event");
  check(cudaSetDevice(previous), "use device");
  state->recorded = true;
  return std::make_shared<NativeSharedEvent>(std::move(state));
}

// ---- Work

void CudaRuntime::submit(Stream stream, TimelineEntry entry, std::function<void(cudaStream_t)> work) {
  if (stop_.stop_requested()) throw Cancelled("stopped on request");
  const Lane& lane = lanes_.at(stream.id);
  entry.phase = phase_;
  entry.stream = lane.name;
  entry.place = lane.place;
  timed_.push_back(std::make_unique<Timed>());
  Timed* timed = timed_.back().get();
  timed->entry = std::move(entry);
  enqueued_.fetch_add(1);
  Device* target = &device(stream.place);
  target->submitter->post([this, timed, target, native = lane.native, work = std::move(work)] {
    if (target->place.is_gpu()) {
      timed->start = target->take_event();
      check(cudaEventRecord(timed->start, *native), "record event");
      work(*native);
      timed->end = target->take_event();
      check(cudaEventRecord(timed->end, *native), "record event");
    } else {
      timed->host_start = Clock::now();
      work(nullptr);
      timed->host_end = Clock::now();
    }
    finished_.fetch_add(1);
  });
}

void CudaRuntime::enqueue(Stream stream, Operation operation) {
  TimelineEntry entry;
  entry.name = std::move(operation.name);
  for (const MemoryView& view : operation.reads) entry.bytes += view.bytes;
  entry.from = entry.to = stream.place;
  entry.passages = passages_of(topology_, stream.place, operation);
  submit(stream, std::move(entry), [run = std::move(operation.run)](cudaStream_t native) { run(native); });
}

void CudaRuntime::copy(Stream stream, const MemoryView& to, const MemoryView& from) {
  if (to.bytes != from.bytes)
    throw ProgramError("copy of " + std::to_string(from.bytes) + " bytes into " + std::to_string(to.bytes));
  if (to.bytes == 0) return;
  TimelineEntry entry;
  entry.name = "copy " + from.place.name() + "→" + to.place.name();
  entry.from = from.place;
  entry.to = to.place;
  entry.bytes = to.bytes;
  entry.is_copy = true;
  entry.passages = {passage_of(topology_, from, to)};
  const bool staged =
      stream.place.is_gpu() && from.place.is_gpu() != to.place.is_gpu() && (from.pageable || to.pageable);
  if (!stream.place.is_gpu())
    return submit(stream, std::move(entry), [to, from](auto) { std::memcpy(to.data, from.data, to.bytes); });
  if (staged) {
    auto& ring = lanes_.at(stream.id).staging;
    if (!ring) ring = std::make_shared<StagingRing>(pinned_->allocate(StagingRing::bytes()), staging_threads());
    return submit(stream, std::move(entry), [to, from, ring](cudaStream_t native) { ring->copy(native, to, from); });
  }
  submit(stream, std::move(entry), [to, from](cudaStream_t native) {
    if (from.place.is_gpu() && to.place.is_gpu() && from.place != to.place)
      check(cudaMemcpyPeerAsync(to.data, to.place.index, from.data, from.place.index, to.bytes, native),
            "copy to a peer");
    else check(cudaMemcpyAsync(to.data, from.data, to.bytes, cudaMemcpyDefault, native), "copy");
  });
}

void CudaRuntime::read_back(std::span<const ReadBack> reads) {
  // Through pinned memory: a copy to pageable memory would block the submitter.
  std::vector<Buffer> staging;
  std::vector<Event> events;
  for (const ReadBack& read : reads) {
    staging.push_back(allocate(Place::host(), read.from.bytes, "read back"));
    copy(read.stream, staging.back().view(), read.from);
    events.push_back(record(read.stream));
  }
  for (const Event event : events) wait(event);
  for (std::size_t r = 0; r < reads.size(); ++r) std::memcpy(reads[r].to, staging[r].view().data, reads[r].from.bytes);
}

// ---- Time

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
  // Every device's base event stands for the same moment: nothing runs, so recording takes microseconds.
  epoch_ = Clock::now();
  for (auto& each : devices_)
    if (each->place.is_gpu()) {
      const Stream base = stream(each->place, "clock");
      each->submitter->post([target = each.get(), native = lanes_[base.id].native] {
        check(cudaEventRecord(target->base, *native), "record event");
        check(cudaEventSynchronize(target->base), "record event");
      });
    }
  synchronize();
}

std::unique_ptr<Runtime> make_cuda_runtime(Machine machine, std::unique_ptr<Kernels> kernels) {
  return std::make_unique<CudaRuntime>(std::move(machine), std::move(kernels));
}

}  // namespace linkwise
