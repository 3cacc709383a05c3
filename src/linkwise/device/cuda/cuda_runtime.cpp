#include "linkwise/device/cuda/cuda_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/cuda/cuda_runtime_parts.hpp"
#include "linkwise/device/cuda/current_device.hpp"
#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/device/phase_range.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t small_reads_bytes = 8 << 20;  // pinned, so that reading small results back allocates nothing

}  // namespace

CudaRuntime::CudaRuntime(Machine machine, std::shared_ptr<const Kernels> kernels,
                         const std::function<void()>& load_kernels)
    : topology_(std::move(machine)), kernels_(std::move(kernels)) {
  std::string why;
  const int gpus = count_cuda_gpus(&why);
  if (gpus == 0) throw DeviceError("CUDA cannot be used: " + why);
  if (gpus != topology_.machine().num_gpus())
    throw UsageError("machine '" + topology_.machine().name + "' has " +
                     std::to_string(topology_.machine().num_gpus()) + " GPUs, CUDA shows " + std::to_string(gpus));
  const CurrentDevice kept;
  for (int g = 0; g < gpus; ++g) {
    check(cudaSetDevice(g), "use device");
    check(cudaFree(nullptr), "make the primary context");
    auto device = std::make_unique<Device>();
    device->reaches.assign(gpus, false);
    device->reaches[g] = true;
    for (const int peer : peers_of(g)) {
      device->reaches[peer] = true;
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) (void)cudaGetLastError();
      else check(status, "enable peer access");
    }
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
  load_kernels();
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
  for (Lane& lane : lanes_) lane.staging.reset();  // ends its threads before the memory that they use is freed
  for (const auto& timed : timed_)
    for (const cudaEvent_t event : {timed->start, timed->end})
      if (event != nullptr) (void)cudaEventDestroy(event);
  for (const auto& device : devices_) {
    for (const cudaEvent_t event : device->spare_events) (void)cudaEventDestroy(event);
    if (device->base != nullptr) (void)cudaEventDestroy(device->base);
  }
  for (std::uint32_t* flag : flags_) (void)cudaFreeHost(flag);
}

// A few cores can feed a link. The links of all GPUs may be busy at once, and each direction has staging rings of its
// own.
int CudaRuntime::staging_threads() const { return std::clamp(team() / (2 * machine().num_gpus()), 1, 8); }

CudaRuntime::Device& CudaRuntime::device(Place place) {
  if (!place.is_gpu()) return *devices_.back();
  if (place.index < 0 || place.index >= static_cast<int>(devices_.size()) - 1)
    throw UsageError("there is no " + place.name() + "; this machine has " + std::to_string(devices_.size() - 1) +
                     " GPUs");
  return *devices_[place.index];
}

void CudaRuntime::post(Place place, std::function<void()> work, std::function<void()> always) {
  is_quiet_ = false;
  device(place).submitter->post(std::move(work), std::move(always));
}

// ---- Order

Stream CudaRuntime::stream(Place place, std::string_view name, Priority priority) {
  (void)device(place);  // throws for one that does not exist, before there is a lane for it
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].place == place && lanes_[s].name == name && !lanes_[s].is_foreign)
      return {static_cast<int>(s), place};
  lanes_.push_back({std::string(name), place});
  if (place.is_gpu())
    post(place, [native = lanes_.back().native, priority] {
      int least = 0, greatest = 0;  // numbers fall as priorities rise
      check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "ask for priorities");
      const int number = priority == Priority::background ? least : std::max(least - 1, greatest);
      check(cudaStreamCreateWithPriority(native.get(), cudaStreamNonBlocking, number), "create stream");
    });
  return {static_cast<int>(lanes_.size()) - 1, place};
}

Event CudaRuntime::record(Stream stream, Site) {
  auto state = std::make_shared<EventState>();
  state->place = stream.place;
  events_.push_back(state);
  std::function<void()> work;
  if (stream.place.is_gpu())
    work = [state, native = lanes_.at(stream.id).native] {
      check(cudaEventCreateWithFlags(&state->event, cudaEventDisableTiming), "create event");
      check(cudaEventRecord(state->event, *native), "record event");
    };
  post(stream.place, std::move(work), [state] {
    state->recorded.store(true, std::memory_order_release);
    state->recorded.notify_all();
  });
  return {static_cast<std::int64_t>(events_.size()) - 1};
}

void CudaRuntime::wait(Stream stream, Event event, Site) {
  if (event.id < 0) return;
  const auto state = events_.at(event.id);
  post(stream.place, [state, stream, native = lanes_.at(stream.id).native] {
    state->recorded.wait(false, std::memory_order_acquire);  // the submitter that records it may be behind
    if (state->event == nullptr) return;                     // the host's event: has happened
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
  post(stream.place, [=, native = lanes_.at(stream.id).native] {
    if (!stream.place.is_gpu()) return std::atomic_ref(*memory).store(value, std::memory_order_release);
    driver::set_flag(*native, memory, value);
  });
}

void CudaRuntime::wait(Stream stream, Flag flag, std::uint32_t value, Site) {
  std::uint32_t* memory = flags_.at(flag.id);
  post(stream.place, [=, native = lanes_.at(stream.id).native] {
    if (stream.place.is_gpu()) return driver::wait_for_flag(*native, memory, value);
    while (std::atomic_ref(*memory).load(std::memory_order_acquire) < value) std::this_thread::yield();
  });
}

void CudaRuntime::check_submitters() {
  for (const auto& each : devices_) each->submitter->rethrow();
}

// A stop request ends this wait only after a second, and never the wait for the host's work: posted work may use
// objects that are destroyed when this throws. A GPU's submitter that takes longer may be stuck in a CUDA call,
// behind a kernel that does not end.
void CudaRuntime::wait_until_recorded(const EventState& event) {
  if (!event.place.is_gpu()) event.recorded.wait(false, std::memory_order_acquire);
  const Clock::time_point soon = Clock::now() + std::chrono::seconds(1);
  while (!event.recorded.load(std::memory_order_acquire)) {
    if (stop_.stop_requested() && Clock::now() > soon) throw Cancelled("stopped on request");
    std::this_thread::yield();
  }
  check_submitters();
}

void CudaRuntime::wait(Event event, Site) {
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

void CudaRuntime::synchronize(Site) {
  if (!is_quiet_) {
    std::vector<Event> events;
    for (std::size_t s = 0; s < lanes_.size(); ++s)
      if (!lanes_[s].is_foreign) events.push_back(record({static_cast<int>(s), lanes_[s].place}));
    for (const Event event : events) wait(event);
  }
  check_submitters();
  is_quiet_ = true;
  release_retired();
}

// Work that the devices have already been given runs on even if a submitter has failed, so the streams themselves are
// queried. A stream that waits for dropped work never finishes, and touches nothing: hence the time limit.
void CudaRuntime::abandon() noexcept {
  const std::stop_token stop = std::exchange(stop_, {});  // or waiting would throw at once
  const Clock::time_point until = Clock::now() + std::chrono::seconds(30);
  const auto wait_while = [&](const auto& is_busy) {
    while (is_busy()) {
      if (Clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  };
  try {
    bool are_there = true, are_idle = true;
    for (const auto& each : devices_) {
      const auto is_done = std::make_shared<std::atomic<bool>>(false);
      post(each->place, {}, [is_done] { is_done->store(true, std::memory_order_release); });
      are_there = are_there && wait_while([&] { return !is_done->load(std::memory_order_acquire); });
    }
    for (const Lane& lane : lanes_)
      if (are_there && !lane.is_foreign && *lane.native != nullptr)
        are_idle = wait_while([&] { return cudaStreamQuery(*lane.native) == cudaErrorNotReady; }) && are_idle;
    if (are_there && are_idle)
      for (const auto& each : devices_) each->submitter->forget_out_of_memory();
    const bool have_failed = std::ranges::any_of(devices_, [](const auto& each) { return each->submitter->failed(); });
    if (are_there && are_idle && !have_failed) synchronize();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the devices have failed: nothing runs there
  }
  stop_ = stop;
}

// ---- Work

void CudaRuntime::submit(Stream stream, TimelineEntry entry, std::function<void(cudaStream_t)> work, bool is_timed) {
  if (stop_.stop_requested()) throw Cancelled("stopped on request");
  const Lane& lane = lanes_.at(stream.id);
  if (!is_timed) return post(stream.place, [native = lane.native, work = std::move(work)] { work(*native); });
  entry.phase = phase_;
  entry.stream = lane.name;
  entry.place = lane.place;
  timed_.push_back(std::make_unique<Timed>());
  Timed* timed = timed_.back().get();
  timed->entry = std::move(entry);
  enqueued_.fetch_add(1);
  Device* target = &device(stream.place);
  post(stream.place, [this, timed, target, native = lane.native, work = std::move(work)] {
    const PhaseRange range(timed->entry.phase);
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
  submit(
      stream, std::move(entry), [run = std::move(operation.run)](cudaStream_t native) { run(native); },
      operation.is_timed);
}

TimelineEntry CudaRuntime::copy_entry(std::span<const CopyPiece> pieces) {
  const auto [to, from] = whole_of(pieces);
  TimelineEntry entry;
  entry.name = "copy " + from.place.name() + "→" + to.place.name();
  entry.from = from.place;
  entry.to = to.place;
  entry.bytes = to.bytes;
  entry.is_copy = true;
  entry.passages = {passage_of(topology_, from, to)};
  return entry;
}

void CudaRuntime::copy(Stream stream, const MemoryView& to, const MemoryView& from) {
  const CopyPiece piece{to, from};
  TimelineEntry entry = copy_entry({&piece, 1});
  if (to.bytes == 0) return;
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

void CudaRuntime::copy_pieces(Stream stream, std::span<const CopyPiece> pieces) {
  if (pieces.empty()) return;
  std::vector<void*> targets;
  std::vector<const void*> sources;
  std::vector<std::size_t> sizes;
  for (const CopyPiece& piece : pieces) {
    targets.push_back(piece.to.data);
    sources.push_back(piece.from.data);
    sizes.push_back(piece.to.bytes);
  }
  submit(stream, copy_entry(pieces),
         [targets = std::move(targets), sources = std::move(sources), sizes = std::move(sizes)](cudaStream_t native) {
           cudaMemcpyAttributes in_order{};
           in_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
           std::size_t first = 0;
           check(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), sizes.size(), &in_order, &first, 1,
                                      native),
                 "copy pieces to a peer");
         });
}

void CudaRuntime::read_back(std::span<const ReadBack> reads, Site) {
  // Through pinned memory: a copy to pageable memory would block the submitter.
  std::vector<Buffer> staging;
  std::vector<Event> events;
  for (const ReadBack& read : reads) {
    staging.push_back(allocate(Place::host(), read.from.bytes, "read back"));
    copy(read.stream, staging.back().view(), read.from);
    events.push_back(record(read.stream));
  }
  try {
    for (const Event event : events) wait(event);
  } catch (...) {  // the copies may still come
    for (Buffer& buffer : staging) retire(std::move(buffer));
    throw;
  }
  for (std::size_t r = 0; r < reads.size(); ++r) std::memcpy(reads[r].to, staging[r].view().data, reads[r].from.bytes);
}

std::unique_ptr<Runtime> make_cuda_runtime(Machine machine, std::shared_ptr<const Kernels> kernels,
                                           const std::function<void()>& load_kernels) {
  return std::make_unique<CudaRuntime>(std::move(machine), std::move(kernels), load_kernels);
}

}  // namespace linkwise
