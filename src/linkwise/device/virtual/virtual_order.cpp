// The virtual runtime's streams, events and flags, the host's waits and accesses, and foreign streams.
#include "linkwise/device/virtual/virtual_runtime_parts.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "linkwise/error.hpp"

namespace linkwise {

Stream VirtualRuntime::stream(Place place, std::string_view name, Priority) {
  (void)topology_.processor_of(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (!lanes_[s].is_foreign && lanes_[s].place == place && lanes_[s].name == name)
      return {static_cast<int>(s), place};
  lanes_.push_back({std::string(name), place, {}, 0});
  return {static_cast<int>(lanes_.size()) - 1, place};
}

bool VirtualRuntime::happened_before(const VectorClock& clock, const Node& node) const {
  const auto agent = static_cast<std::size_t>(agent_of(node.lane));
  return agent < clock.size() && clock[agent] >= node.number;
}

// The new node comes after everything that the host has waited for and done.
std::unique_ptr<VirtualRuntime::Node> VirtualRuntime::make_node(std::string name) {
  auto node = std::make_unique<Node>();
  node->id = static_cast<std::int64_t>(nodes_.size());
  node->name = std::move(name);
  node->phase = phase_;
  node->clock = host_clock_;
  if (host_fence_ >= 0) node->after.push_back(host_fence_);
  return node;
}

VirtualRuntime::Node& VirtualRuntime::add(Stream stream, std::string name) {
  throw_pending();
  if (stop_.stop_requested()) throw Cancelled("stopped on request");
  auto node = make_node(std::move(name));
  node->lane = stream.id;
  Lane& lane = lanes_.at(stream.id);
  if (!lane.nodes.empty()) node->after.push_back(lane.nodes.back());
  node->number = static_cast<std::int64_t>(lane.nodes.size()) + 1;
  lane.nodes.push_back(node->id);
  enqueued_.fetch_add(1);
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

Event VirtualRuntime::record(Stream stream, Site site) {
  const Lane& lane = lanes_.at(stream.id);
  if (lane.nodes.empty()) return {};
  std::size_t behind = lane.nodes.size();
  if (waits_.leaves_out(WaitKind::record, site)) --behind;
  if (behind == 0) return {};
  events_.push_back({lane.nodes[behind - 1], waits_.last()});
  return {static_cast<std::int64_t>(events_.size()) - 1};
}

void VirtualRuntime::wait(Stream stream, Event event, Site site) {
  if (event.id < 0 || waits_.leaves_out(WaitKind::event, site)) return;
  const Recorded& recorded = events_.at(event.id);
  Node& node = add(stream, "wait for " + nodes_.at(recorded.node)->name);
  node.awaited = recorded.node;
  node.record = recorded.wait;
  node.wait = waits_.last();
}

Flag VirtualRuntime::flag(std::string_view name) {
  flags_.push_back({std::string(name), 0, {}});
  return {static_cast<int>(flags_.size()) - 1};
}

void VirtualRuntime::set(Stream stream, Flag flag, std::uint32_t value) {
  Node& node = add(stream, "set flag '" + flags_.at(flag.id).name + "'");
  node.set_flag = flag.id;
  node.flag_value = value;
}

void VirtualRuntime::wait(Stream stream, Flag flag, std::uint32_t value, Site site) {
  if (waits_.leaves_out(WaitKind::flag, site)) return;
  Node& node = add(stream, "wait for flag '" + flags_.at(flag.id).name + "' to reach " + std::to_string(value));
  node.awaited_flag = flag.id;
  node.flag_value = value;
  node.wait = waits_.last();
}

// ---- The host

void VirtualRuntime::wait(Event event, Site site) {
  throw_pending();
  if (event.id < 0 || waits_.leaves_out(WaitKind::host, site)) return;
  const Recorded& recorded = events_.at(event.id);
  if (!happened_before(host_clock_, *nodes_[recorded.node])) {
    waits_.note_order(waits_.last());
    waits_.note_order(recorded.wait);
  }
  run_until(recorded.node);
  host_waits_for(recorded.node);
}

void VirtualRuntime::host_waits_for(std::int64_t id) {
  join(host_clock_, nodes_[id]->clock);
  add_of_host("host waits").after.push_back(id);
}

VirtualRuntime::Node& VirtualRuntime::add_of_host(std::string name) {
  auto node = make_node(std::move(name));
  node->done = true;
  host_fence_ = node->id;
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

bool VirtualRuntime::is_own_work_done() const {
  return std::ranges::all_of(lanes_, [&](const Lane& lane) {
    return lane.is_foreign || lane.nodes.empty() || happened_before(host_clock_, *nodes_[lane.nodes.back()]);
  });
}

void VirtualRuntime::finish_own_streams() {
  std::vector<std::int64_t> last;
  for (const Lane& lane : lanes_)
    if (!lane.is_foreign && !lane.nodes.empty()) last.push_back(lane.nodes.back());
  for (const std::int64_t id : last) run_until(id);
  for (const std::int64_t id : last) host_waits_for(id);
  release_retired();
  throw_pending();
}

void VirtualRuntime::synchronize(Site site) {
  if (waits_.leaves_out(WaitKind::synchronize, site)) return;
  if (!is_own_work_done()) waits_.note_order(waits_.last());
  finish_own_streams();
}

void VirtualRuntime::host_reads(const MemoryView& view, std::string_view purpose) {
  host_touches(view, /*writes=*/false, purpose);
}

void VirtualRuntime::host_writes(const MemoryView& view, std::string_view purpose) {
  host_touches(view, /*writes=*/true, purpose);
}

std::optional<std::int64_t> VirtualRuntime::pending_user(const MemoryView& view, bool also_readers) const {
  const auto overlaps = [&](const MemoryView& other) {
    return other.data < view.data + view.bytes && view.data < other.data + other.bytes;
  };
  for (const Lane& lane : lanes_)
    for (std::size_t n = lane.next; n < lane.nodes.size(); ++n) {
      const Operation& operation = nodes_[lane.nodes[n]]->operation;
      if (std::ranges::any_of(operation.writes, overlaps)) return lane.nodes[n];
      if (also_readers && std::ranges::any_of(operation.reads, overlaps)) return lane.nodes[n];
    }
  return std::nullopt;
}

// Finds races whatever the execution order: operations that are only enqueued may run at any time, and those that
// have run may not have been waited for.
void VirtualRuntime::host_touches(const MemoryView& view, bool writes, std::string_view purpose) {
  if (estimating() || view.bytes == 0) return;
  throw_pending();
  const std::int64_t here = add_of_host("the host, which " + std::string(purpose)).id;
  if (const auto user = pending_user(view, /*also_readers=*/writes)) report_race(*user, here);
  host_clock_.resize(std::max<std::size_t>(host_clock_.size(), 1), 0);
  host_clock_[host_agent] = ++host_accesses_;
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  const RaceDetector::Access access{host_agent, host_accesses_, here};
  const auto other = writes ? races_.write(begin, begin + view.bytes, access, host_clock_)
                            : races_.read(begin, begin + view.bytes, access, host_clock_);
  if (other) report_race(*other, here);
}

// Drops operations that have not run: their memory may have been freed by its owner. Operations that have run or
// failed are waited for, so that later work is ordered after them, as after synchronising a real device. Work on
// foreign streams goes on.
void VirtualRuntime::abandon() noexcept {
  host_clock_.resize(std::max(host_clock_.size(), lanes_.size() + 1), 0);
  std::vector<Node*> dropped;
  for (std::size_t s = 0; s < lanes_.size(); ++s) {
    Lane& lane = lanes_[s];
    if (lane.is_foreign) continue;
    for (; lane.next < lane.nodes.size(); ++lane.next) {
      Node& node = *nodes_[lane.nodes[lane.next]];
      node.operation = {};
      node.is_copy = node.shown = false;
      node.awaited = -1;
      node.awaited_flag = node.set_flag = -1;
      node.done = true;
      dropped.push_back(&node);
    }
    host_clock_[static_cast<std::size_t>(agent_of(static_cast<int>(s)))] = static_cast<std::int64_t>(lane.nodes.size());
  }
  for (Node* const node : dropped) node->clock = host_clock_;
  for (const Lane& lane : lanes_)
    if (!lane.is_foreign && !lane.nodes.empty()) host_waits_for(lane.nodes.back());
  pending_error_.clear();  // about memory that unwinding freed before it could wait
  try {
    release_retired();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): other software's error; later calls meet it too
  }
}

// ---- Other software

Stream VirtualRuntime::foreign_stream(Place place, void* native) {
  (void)topology_.processor_of(place);
  for (std::size_t s = 0; s < lanes_.size(); ++s)
    if (lanes_[s].is_foreign && lanes_[s].place == place && lanes_[s].native == native)
      return {static_cast<int>(s), place};
  lanes_.push_back({"caller", place, {}, 0, true, native});
  return {static_cast<int>(lanes_.size()) - 1, place};
}

// Runs the waits at the front of foreign streams, as far as they have been flushed and are ready.
void VirtualRuntime::run_waits_of_others() {
  for (const Lane& lane : lanes_)
    while (lane.is_foreign && lane.next < lane.flushed) {
      const Node& node = *nodes_[lane.nodes[lane.next]];
      if (node.operation.run || !is_ready(node)) break;
      execute(node.id);
    }
}

void VirtualRuntime::flush(Site site) {
  if (waits_.leaves_out(WaitKind::flush, site)) return;
  for (Lane& lane : lanes_) {
    if (lane.is_foreign && lane.flushed < lane.nodes.size()) waits_.note_order(waits_.last());
    lane.flushed = lane.nodes.size();
  }
}

// Inserts the operation before our own work on the stream that has not been flushed.
void VirtualRuntime::enqueue_as_caller(Stream foreign, Operation operation) {
  throw_pending();
  if (stop_.stop_requested()) throw Cancelled("stopped on request");
  Lane& lane = lanes_.at(foreign.id);
  const std::vector<std::int64_t> ours(lane.nodes.begin() + static_cast<std::ptrdiff_t>(lane.flushed),
                                       lane.nodes.end());
  lane.nodes.resize(lane.flushed);
  Node& node = add(foreign, operation.name);
  node.operation = std::move(operation);
  ++lane.flushed;
  for (const std::int64_t id : ours) {
    Node& later = *nodes_[id];
    later.after.push_back(lane.nodes.back());
    ++later.number;
    lane.nodes.push_back(id);
  }
}

// Refers to an event of a runtime that may be gone by the time it is used.
struct VirtualRuntime::VirtualSharedEvent : SharedEvent {
  VirtualSharedEvent(std::shared_ptr<VirtualRuntime*> of, std::int64_t behind)
      : self(std::move(of)), node(behind), past((*self)->past_) {}

  [[nodiscard]] bool has_passed() const { return *self == nullptr || node < 0 || past != (*self)->past_; }
  void hold(void* native_stream) override {
    if (has_passed()) return;
    VirtualRuntime& runtime = **self;
    const Stream foreign = runtime.foreign_stream(
        runtime.lanes_[static_cast<std::size_t>(runtime.nodes_[node]->lane)].place, native_stream);
    runtime.enqueue_as_caller(foreign, {"wait for " + runtime.nodes_[node]->name, {}, {}, {}, nullptr});
    runtime.nodes_.back()->awaited = node;
  }
  void wait() override {
    if (has_passed()) return;
    (*self)->run_until(node);
    (*self)->host_waits_for(node);
  }

  std::shared_ptr<VirtualRuntime*> self;
  std::int64_t node;
  std::uint64_t past;
};

std::shared_ptr<SharedEvent> VirtualRuntime::share(Event event) {
  return std::make_shared<VirtualSharedEvent>(self_, event.id < 0 ? -1 : events_.at(event.id).node);
}

std::shared_ptr<SharedEvent> VirtualRuntime::record_foreign(Place place, void* native) {
  const Lane& lane = lanes_.at(foreign_stream(place, native).id);
  return std::make_shared<VirtualSharedEvent>(self_, lane.flushed == 0 ? -1 : lane.nodes[lane.flushed - 1]);
}

void VirtualRuntime::fetch(void* to, const MemoryView& from, SharedEvent& ready) {
  ready.wait();
  host_reads(from, "fetches a result");
  std::memcpy(to, from.data, from.bytes);
}

}  // namespace linkwise
