#include "linkwise/device/virtual/virtual_runtime_parts.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "linkwise/device/phase_range.hpp"
#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t large_copy = 512;  // bytes: more than sums and counts that are read back

}  // namespace

VirtualRuntime::VirtualRuntime(Machine machine, VirtualMode mode, std::uint64_t seed,
                               std::shared_ptr<const Kernels> kernels)
    : topology_(std::move(machine)),
      mode_(mode),
      kernels_(std::move(kernels)),
      random_(seed),
      seed_(seed),
      self_(std::make_shared<VirtualRuntime*>(this)) {}

VirtualRuntime::~VirtualRuntime() {
  *self_ = nullptr;
  drop_retired();
}

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
  } else if (place.is_gpu() && memory_.allocate) {
    memory = memory_.of(place.index);
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

void VirtualRuntime::take_memory_from(GpuMemory memory) {
  memory_ = std::move(memory);
  std::erase_if(arenas_, [](const auto& each) { return each.first.is_gpu(); });
}

std::uint64_t VirtualRuntime::available(Place place) {
  if (!place.is_gpu()) return std::numeric_limits<std::uint64_t>::max();
  const auto capacity = static_cast<std::uint64_t>(machine().gpu.memory_gib * (1ULL << 30));
  std::uint64_t free_bytes = capacity - std::min(capacity, arena(place).reserved());
  if (memory_.available) free_bytes = std::min(free_bytes, memory_.available(place.index));
  return arena(place).largest_allocation(free_bytes);
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
  finish_own_streams();
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
    std::optional<std::int64_t> user;
    if (view.bytes > 0) {
      user = races_.forget(begin, begin + view.bytes, host_clock_);
      if (!user) user = pending_user(view, /*also_readers=*/true);
    }
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

void VirtualRuntime::check_access(const MemoryView& view, const Node& node) const {
  if (!node.is_copy && node.lane >= 0) {
    const Place place = lanes_[node.lane].place;
    const bool is_of_peer = place.is_gpu() && view.place.is_gpu() && place != view.place;
    if (is_of_peer && !topology_.can_reach(place.index, view.place.index))
      throw ProgramError(describe(node) + " touches memory of " + view.place.name() + ", which " + place.name() +
                         " cannot reach; copy it");
    if (is_of_peer && !is_mapped_for_peers(view))
      throw ProgramError(describe(node) + " touches the caller's memory on " + view.place.name() +
                         ", which may be mapped for that GPU alone; copy it there first");
  }
  if (view.allocation == 0 || live_.contains(view.allocation)) return;
  const auto freed = freed_.find(view.allocation);
  throw UseAfterFreeError(describe(node) + " touches buffer '" + (freed == freed_.end() ? "?" : freed->second) +
                          "', which was given back before it ran (seed " + std::to_string(seed_) + ")");
}

// ---- Work

void VirtualRuntime::enqueue(Stream stream, Operation operation) {
  Node& node = add(stream, operation.name);
  node.operation = std::move(operation);
  node.shown = true;
}

void VirtualRuntime::copy(Stream stream, const MemoryView& to, const MemoryView& from) {
  const CopyPiece piece{to, from};
  copy_pieces(stream, {&piece, 1});
}

void VirtualRuntime::copy_pieces(Stream stream, std::span<const CopyPiece> pieces) {
  if (pieces.empty()) return;
  const auto [to, from] = whole_of(pieces);
  topology_.route(from.place, to.place, from.pageable || to.pageable);
  Node& node = add(stream, "copy " + from.place.name() + "→" + to.place.name());
  node.is_copy = node.shown = true;
  node.from = from;
  node.to = to;
  for (const CopyPiece& piece : pieces) {
    node.operation.reads.push_back(piece.from);
    node.operation.writes.push_back(piece.to);
  }
  node.operation.run = [copied = std::vector(pieces.begin(), pieces.end())](void*) {
    for (const CopyPiece& piece : copied) std::memcpy(piece.to.data, piece.from.data, piece.to.bytes);
  };
}

void VirtualRuntime::read_back(std::span<const ReadBack> reads, Site site) {
  std::vector<std::int64_t> copies;
  const auto target = [](const ReadBack& read) {
    return MemoryView{Place::host(), static_cast<std::byte*>(read.to), read.from.bytes, 0, false};
  };
  for (const ReadBack& read : reads) {
    copy(read.stream, target(read), read.from);
    copies.push_back(nodes_.back()->id);
  }
  if (!waits_.leaves_out(WaitKind::read_back, site)) {
    waits_.note_order(waits_.last());
    for (const std::int64_t copy : copies) {
      run_until(copy);
      host_waits_for(copy);
    }
  }
  for (const ReadBack& read : reads) host_reads(target(read), "reads back");
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
  if (node.awaited >= 0 && !nodes_[node.awaited]->done) return false;
  return node.awaited_flag < 0 || flags_[node.awaited_flag].value >= node.flag_value;
}

void VirtualRuntime::execute(std::int64_t id) {
  Node& node = *nodes_[id];
  for (const std::int64_t before : node.after) join(node.clock, nodes_[before]->clock);
  const auto come_behind = [&](std::int64_t other) {
    if (happened_before(node.clock, *nodes_[other])) return;
    waits_.note_order(node.wait);
    waits_.note_order(node.record);
  };
  if (node.awaited >= 0) {
    come_behind(node.awaited);
    join(node.clock, nodes_[node.awaited]->clock);
    node.after.push_back(node.awaited);
  }
  if (node.awaited_flag >= 0) {
    FlagState& flag = flags_[node.awaited_flag];
    // For the clock, the wait ends with the first set that reached the value.
    const auto set = std::ranges::find_if(flag.sets, [&](const auto& s) { return s.first >= node.flag_value; });
    if (set != flag.sets.end()) {
      come_behind(set->second);
      node.after.push_back(set->second);
      join(node.clock, nodes_[set->second]->clock);
    }
  }
  const int agent = agent_of(node.lane);
  if (node.clock.size() <= lanes_.size()) node.clock.resize(lanes_.size() + 1, 0);
  node.clock[agent] = node.number;
  if (!estimating()) {
    const RaceDetector::Access access{agent, node.number, node.id};
    const auto each = [&](const MemoryView& view, bool writes) {
      if (view.bytes == 0) return;
      check_access(view, node);
      const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
      const auto other = writes ? races_.write(begin, begin + view.bytes, access, node.clock)
                                : races_.read(begin, begin + view.bytes, access, node.clock);
      if (other && *other != node.id) report_race(*other, node.id);
    };
    for (const MemoryView& view : node.operation.reads) each(view, false);
    for (const MemoryView& view : node.operation.writes) each(view, true);
    if (finished_.load() + 1 == faults_.failing_operation)
      throw DeviceError(describe(node) + " failed on its device; nothing was changed, so try again");
    if (node.operation.run) {
      const PhaseRange range(node.phase);
      node.operation.run(nullptr);
    }
    if (node.is_copy && node.to.bytes >= large_copy && ++large_copies_ == faults_.flipped_copy) {
      const std::uint64_t bit = random_() % (8 * node.to.bytes);
      node.to.data[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
  if (node.set_flag >= 0) {
    FlagState& flag = flags_[node.set_flag];
    flag.value = node.flag_value;
    flag.sets.emplace_back(node.flag_value, node.id);
  }
  node.operation.run = nullptr;  // lets go of what it captured
  node.done = true;
  Lane& lane = lanes_[node.lane];
  lane.flushed = std::max(lane.flushed, ++lane.next);  // what has run had reached its stream
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
  const bool is_of_host = nodes_[first]->lane < 0 || nodes_[second]->lane < 0;
  throw RaceError(describe(*nodes_[first]) + " and " + describe(*nodes_[second]) +
                  " touch the same bytes, one of them writes, and nothing orders them (seed " + std::to_string(seed_) +
                  "); " +
                  (is_of_host ? "the host has to wait for an event behind the other"
                              : "let the second's stream wait for an event behind the first: of a region, flush() "
                                "between writers and readers, and consumed() behind those that it is to be overwritten "
                                "after"));
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
