#include "linkwise/device/virtual/virtual_runtime_parts.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "linkwise/error.hpp"

namespace linkwise {

VirtualRuntime::VirtualRuntime(Machine machine, VirtualMode mode, std::uint64_t seed,
                               std::shared_ptr<const Kernels> kernels)
    : topology_(std::move(machine)), mode_(mode), kernels_(std::move(kernels)), random_(seed), seed_(seed) {}

VirtualRuntime::~VirtualRuntime() { drop_retired(); }

// ---- Memory

Arena& VirtualRuntime::arena(Place place) {
  auto& slot = arenas_[place];
  if (slot) return *slot;
  (void)topology_.processor_of(place);  // throws if there is no such place
  PhysicalMemory memory;
  if (estimating()) {
    memory.allocate = [this](std::uint64_t bytes) {
      const std::uintptr_t address = next_fake_address_;
      next_fake_address_ += align_up(bytes, 4096) + 4096;
      return reinterpret_cast<std::byte*>(address);  // NOLINT: never dereferenced
    };
    memory.release = [](std::byte*, std::uint64_t) {};
  } else {
    memory.allocate = [this, place](std::uint64_t bytes) {
      const auto capacity = static_cast<std::uint64_t>(machine().gpu.memory_gib * (1ULL << 30));
      if (place.is_gpu() && faults_.memory_of_others > 0 &&
          reserved(place) + bytes + faults_.memory_of_others > capacity)
        throw OutOfMemoryError(place.name() + ": others have taken the memory that " + std::to_string(bytes) +
                               " bytes would need; free GPU memory, lower memory_limit, or use more GPUs");
      void* data = std::aligned_alloc(4096, align_up(bytes, 4096));
      if (data == nullptr)
        throw OutOfMemoryError(place.name() + ": the host cannot give " + std::to_string(bytes) +
                               " bytes to stand in for device memory; take less data or a machine with more memory");
      return static_cast<std::byte*>(data);
    };
    memory.release = [](std::byte* data, std::uint64_t) { std::free(data); };
  }
  const auto gpu_bytes = static_cast<std::uint64_t>(machine().gpu.memory_gib * (1ULL << 30));
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  if (place.is_gpu()) limit = memory_limit_ == 0 ? gpu_bytes : std::min(memory_limit_, gpu_bytes);
  slot = std::make_unique<Arena>(place.name(), std::move(memory), place.is_gpu() ? device_alignment : host_alignment,
                                 limit);
  return *slot;
}

std::uint64_t VirtualRuntime::available(Place place) {
  if (!place.is_gpu()) return std::numeric_limits<std::uint64_t>::max();
  const auto capacity = static_cast<std::uint64_t>(machine().gpu.memory_gib * (1ULL << 30));
  const std::uint64_t limit = memory_limit_ == 0 ? capacity : std::min(memory_limit_, capacity);
  return limit - std::min(limit, arena(place).in_use());
}

std::uint64_t VirtualRuntime::reserved(Place place) { return arena(place).reserved(); }

void VirtualRuntime::set_memory_limit(std::uint64_t bytes_per_gpu) {
  memory_limit_ = bytes_per_gpu;
  const auto capacity = static_cast<std::uint64_t>(machine().gpu.memory_gib * (1ULL << 30));
  for (auto& [place, arena] : arenas_)
    if (place.is_gpu()) arena->set_limit(bytes_per_gpu == 0 ? capacity : std::min(bytes_per_gpu, capacity));
}

void VirtualRuntime::reserve(Place place, std::uint64_t bytes) { arena(place).reserve(bytes); }

void VirtualRuntime::trim() {
  synchronize();
  for (auto& [place, arena] : arenas_) arena->trim();
}

MemoryView VirtualRuntime::allocate_memory(Place place, std::uint64_t bytes, std::string_view label) {
  throw_pending();
  if (++allocations_ == faults_.failing_allocation)
    throw OutOfMemoryError(place.name() + ": no memory for '" + std::string(label) + "', by order of a test");
  const MemoryView view{place, arena(place).allocate(bytes), bytes, next_allocation_++, false};
  live_.emplace(view.allocation, label);
  if (!estimating()) std::memset(view.data, 0xDB, bytes);  // nobody may rely on fresh memory
  return view;
}

void VirtualRuntime::release_memory(const MemoryView& view) noexcept {
  const auto found = live_.find(view.allocation);
  if (found == live_.end()) return;
  const std::string label = found->second;
  live_.erase(found);
  freed_.emplace(view.allocation, label);
  if (!estimating()) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    const auto user = view.bytes == 0 ? std::nullopt : races_.forget(begin, begin + view.bytes, host_clock_);
    if (user && pending_error_.empty())
      pending_error_ = "buffer '" + label + "' was given back while " + describe(*nodes_[*user]) +
                       " may still be using it; wait for it first";
    std::memset(view.data, 0xDB, view.bytes);
  }
  arena(view.place).release(view.data);
}

void VirtualRuntime::throw_pending() {
  if (!pending_error_.empty()) throw UseAfterFreeError(std::exchange(pending_error_, {}));
}

void VirtualRuntime::check_access(const MemoryView& view, const std::string& operation) const {
  if (view.allocation == 0 || live_.contains(view.allocation)) return;
  const auto freed = freed_.find(view.allocation);
  throw UseAfterFreeError(operation + " touches buffer '" + (freed == freed_.end() ? "?" : freed->second) +
                          "', which was given back before it ran (seed " + std::to_string(seed_) + ")");
}

// ---- Order

Stream VirtualRuntime::stream(Place place, std::string_view name, Priority) {
  (void)topology_.processor_of(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].place == place && lanes_[s].name == name) return {static_cast<int>(s), place};
  lanes_.push_back({std::string(name), place, {}, 0});
  return {static_cast<int>(lanes_.size()) - 1, place};
}

VirtualRuntime::Node& VirtualRuntime::add(Stream stream, std::string name) {
  throw_pending();
  if (stop_.stop_requested()) throw Cancelled("stopped on request");
  auto node = std::make_unique<Node>();
  node->id = static_cast<std::int64_t>(nodes_.size());
  node->lane = stream.id;
  node->name = std::move(name);
  node->phase = phase_;
  node->clock = host_clock_;
  if (host_fence_ >= 0) node->after.push_back(host_fence_);
  Lane& lane = lanes_.at(stream.id);
  if (!lane.nodes.empty()) node->after.push_back(lane.nodes.back());
  node->number = static_cast<std::int64_t>(lane.nodes.size()) + 1;
  lane.nodes.push_back(node->id);
  enqueued_.fetch_add(1);
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

Event VirtualRuntime::record(Stream stream) {
  const Lane& lane = lanes_.at(stream.id);
  return {lane.nodes.empty() ? -1 : lane.nodes.back()};
}

void VirtualRuntime::wait(Stream stream, Event event) {
  if (event.id < 0) return;
  add(stream, "wait for " + nodes_.at(event.id)->name).after.push_back(event.id);
}

Flag VirtualRuntime::flag(std::string_view name) {
  flags_.push_back({std::string(name), 0, {}, {}});
  return {static_cast<int>(flags_.size()) - 1};
}

void VirtualRuntime::set(Stream stream, Flag flag, std::uint32_t value) {
  Node& node = add(stream, "set flag '" + flags_.at(flag.id).name + "'");
  node.set_flag = flag.id;
  node.flag_value = value;
}

void VirtualRuntime::wait(Stream stream, Flag flag, std::uint32_t value) {
  Node& node = add(stream, "wait for flag '" + flags_.at(flag.id).name + "' to reach " + std::to_string(value));
  node.awaited_flag = flag.id;
  node.flag_value = value;
}

void VirtualRuntime::wait(Event event) {
  throw_pending();
  if (event.id < 0) return;
  run_until(event.id);
  host_waits_for(event.id);
}

void VirtualRuntime::host_waits_for(std::int64_t id) {
  join(host_clock_, nodes_[id]->clock);
  auto fence = std::make_unique<Node>();
  fence->id = static_cast<std::int64_t>(nodes_.size());
  fence->name = "host waits";
  fence->after.push_back(id);
  if (host_fence_ >= 0) fence->after.push_back(host_fence_);
  fence->clock = host_clock_;
  fence->done = true;
  host_fence_ = fence->id;
  nodes_.push_back(std::move(fence));
}

void VirtualRuntime::synchronize() {
  for (const Lane& lane : lanes_)
    if (!lane.nodes.empty()) run_until(lane.nodes.back());
  for (const Lane& lane : lanes_)
    if (!lane.nodes.empty()) host_waits_for(lane.nodes.back());
  release_retired();
  throw_pending();
}

// What has not run never will: it may name memory that its owner has let go of. What has run, or failed, is waited for,
// so that what comes next is ordered behind it, as after waiting for a real device.
void VirtualRuntime::abandon() noexcept {
  host_clock_.resize(std::max(host_clock_.size(), lanes_.size()), 0);
  for (std::size_t s = 0; s < lanes_.size(); ++s) {
    Lane& lane = lanes_[s];
    for (; lane.next < lane.nodes.size(); ++lane.next) {
      Node& node = *nodes_[lane.nodes[lane.next]];
      node.operation = {};
      node.is_copy = node.shown = false;
      node.awaited_flag = node.set_flag = -1;
      node.done = true;
    }
    host_clock_[s] = static_cast<std::int64_t>(lane.nodes.size());
  }
  for (const Lane& lane : lanes_)
    if (!lane.nodes.empty()) host_waits_for(lane.nodes.back());
  pending_error_.clear();  // of memory that unwinding gave back before it could wait
  release_retired();
}

// Other software has no streams here: the caller's arrays are ready, and nobody reads a result before `synchronize`.
Stream VirtualRuntime::foreign_stream(Place place, void*) { return stream(place, "caller"); }

std::shared_ptr<SharedEvent> VirtualRuntime::share(Event) {
  struct Passed : SharedEvent {
    void hold(void*) override {}
    void wait() override {}
  };
  return std::make_shared<Passed>();
}

std::shared_ptr<SharedEvent> VirtualRuntime::record_foreign(Place, void*) { return share({}); }

void VirtualRuntime::fetch(void* to, const MemoryView& from, SharedEvent&) {
  std::memcpy(to, from.data, from.bytes);  // the caller has synchronised
}

// ---- Work

void VirtualRuntime::enqueue(Stream stream, Operation operation) {
  Node& node = add(stream, operation.name);
  node.operation = std::move(operation);
  node.shown = true;
}

void VirtualRuntime::copy(Stream stream, const MemoryView& to, const MemoryView& from) {
  if (to.bytes != from.bytes)
    throw ProgramError("copy of " + std::to_string(from.bytes) + " bytes into " + std::to_string(to.bytes));
  topology_.route(from.place, to.place, from.pageable || to.pageable);
  Node& node = add(stream, "copy " + from.place.name() + "→" + to.place.name());
  node.is_copy = node.shown = true;
  node.from = from;
  node.to = to;
  node.operation.reads = {from};
  node.operation.writes = {to};
  node.operation.run = [to, from](void*) { std::memcpy(to.data, from.data, to.bytes); };
}

void VirtualRuntime::read_back(std::span<const ReadBack> reads) {
  std::vector<Event> events;
  for (const ReadBack& read : reads) {
    const MemoryView to{Place::host(), static_cast<std::byte*>(read.to), read.from.bytes, 0, false};
    copy(read.stream, to, read.from);
    events.push_back(record(read.stream));
  }
  for (const Event event : events) wait(event);
  if (!estimating()) return;
  for (const ReadBack& read : reads) {
    if (read.expectation != nullptr) std::memcpy(read.to, read.expectation, read.from.bytes);
    else std::memset(read.to, 0, read.from.bytes);
  }
}

// ---- Execution

bool VirtualRuntime::is_ready(const Node& node) const {
  for (const std::int64_t before : node.after)
    if (!nodes_[before]->done) return false;
  return node.awaited_flag < 0 || flags_[node.awaited_flag].value >= node.flag_value;
}

void VirtualRuntime::execute(std::int64_t id) {
  Node& node = *nodes_[id];
  for (const std::int64_t before : node.after) join(node.clock, nodes_[before]->clock);
  if (node.awaited_flag >= 0) {
    FlagState& flag = flags_[node.awaited_flag];
    join(node.clock, flag.clock);
    // For the clock, the wait ends with the first set that reached the value.
    const auto set = std::ranges::find_if(flag.sets, [&](const auto& s) { return s.first >= node.flag_value; });
    if (set != flag.sets.end()) node.after.push_back(set->second);
  }
  if (node.clock.size() < lanes_.size()) node.clock.resize(lanes_.size(), 0);
  node.clock[node.lane] = node.number;
  if (!estimating()) {
    const RaceDetector::Access access{node.lane, node.number, node.id};
    const auto each = [&](const MemoryView& view, bool writes) {
      if (view.bytes == 0) return;
      check_access(view, describe(node));
      const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
      const auto other = writes ? races_.write(begin, begin + view.bytes, access, node.clock)
                                : races_.read(begin, begin + view.bytes, access, node.clock);
      if (other && *other != node.id) report_race(*other, node.id);
    };
    for (const MemoryView& view : node.operation.reads) each(view, false);
    for (const MemoryView& view : node.operation.writes) each(view, true);
    if (finished_.load() + 1 == faults_.failing_operation)
      throw DeviceError(describe(node) + " failed on its device; nothing was changed, so try again");
    if (node.operation.run) node.operation.run(nullptr);
  }
  if (node.set_flag >= 0) {
    FlagState& flag = flags_[node.set_flag];
    flag.value = node.flag_value;
    join(flag.clock, node.clock);
    flag.sets.emplace_back(node.flag_value, node.id);
  }
  node.operation.run = nullptr;  // lets go of what it captured
  node.done = true;
  ++lanes_[node.lane].next;
  finished_.fetch_add(1);
}

void VirtualRuntime::run_until(std::int64_t id) {
  std::vector<std::int64_t> ready;
  while (!nodes_[id]->done) {
    if (stop_.stop_requested()) throw Cancelled("stopped on request");
    ready.clear();
    for (const Lane& lane : lanes_)
      if (lane.next < lane.nodes.size() && is_ready(*nodes_[lane.nodes[lane.next]]))
        ready.push_back(lane.nodes[lane.next]);
    if (ready.empty()) report_deadlock(id);
    execute(ready[random_() % ready.size()]);
  }
}

std::string VirtualRuntime::describe(const Node& node) const {
  if (node.lane < 0) return node.name;
  const Lane& lane = lanes_[node.lane];
  return "'" + node.name + "' on stream " + lane.place.name() + "/" + lane.name;
}

void VirtualRuntime::report_race(std::int64_t first, std::int64_t second) const {
  throw RaceError(describe(*nodes_[first]) + " and " + describe(*nodes_[second]) +
                  " touch the same bytes, one of them writes, and nothing orders them (seed " + std::to_string(seed_) +
                  "); let the second's stream wait for an event behind the first: of a region, flush() between writers "
                  "and readers, and consumed() behind those that it is to be overwritten after");
}

void VirtualRuntime::report_deadlock(std::int64_t awaited) const {
  std::string message = "the host waits for " + describe(*nodes_[awaited]) + ", which can never happen:";
  for (const Lane& lane : lanes_) {
    if (lane.next >= lane.nodes.size()) continue;
    const Node& node = *nodes_[lane.nodes[lane.next]];
    message += " " + describe(node);
    if (node.awaited_flag >= 0)
      message += " (it is " + std::to_string(flags_[node.awaited_flag].value) + ", and nothing that can run sets it)";
    message += " is blocked;";
  }
  message.back() = ' ';
  throw DeadlockError(message + "(seed " + std::to_string(seed_) + ")");
}

}  // namespace linkwise
