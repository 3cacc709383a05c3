#include "linkwise/device/runtime.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {

MemoryView MemoryView::slice(std::uint64_t offset, std::uint64_t length) const {
  if (offset > bytes || length > bytes - offset)
    throw ProgramError("slice [" + std::to_string(offset) + ", +" + std::to_string(length) + ") of " +
                       std::to_string(bytes) + " bytes");
  MemoryView part = *this;
  part.data += offset;
  part.bytes = length;
  return part;
}

MemoryView host_view(const void* data, std::uint64_t offset, std::uint64_t bytes, bool pageable) {
  if (offset > std::numeric_limits<std::uint64_t>::max() / 2)
    throw ProgramError("an offset of " + std::to_string(static_cast<std::int64_t>(offset)) + " bytes into host memory");
  // Inputs are never written through their view, so their const is kept.
  auto* start = static_cast<std::byte*>(const_cast<void*>(data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return {Place::host(), start + offset, bytes, 0, pageable};
}

Buffer::Buffer(Buffer&& other) noexcept
    : runtime_(std::exchange(other.runtime_, nullptr)), view_(std::exchange(other.view_, {})) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (runtime_ != nullptr) runtime_->release_memory(view_);
  runtime_ = std::exchange(other.runtime_, nullptr);
  view_ = std::exchange(other.view_, {});
  return *this;
}

Buffer::~Buffer() {
  if (runtime_ != nullptr) runtime_->release_memory(view_);
}

Buffer Runtime::allocate(Place place, std::uint64_t bytes, std::string_view label) {
  return {*this, allocate_memory(place, bytes, label)};
}

void Runtime::use_memory(GpuMemory memory) {
  memory.check();
  for (int gpu = 0; gpu < machine().num_gpus(); ++gpu)
    if (reserved(Place::gpu(gpu)) > 0)
      throw UsageError(Place::gpu(gpu).name() + " has memory from elsewhere already; say where to take it from first");
  take_memory_from(std::move(memory));
}

void Runtime::retire(Buffer buffer, std::vector<std::shared_ptr<SharedEvent>> users) {
  const std::lock_guard lock(retired_mutex_);
  retired_.push_back({std::move(buffer), std::move(users)});
}

void Runtime::release_retired() {
  std::vector<Retired> ready;
  {
    const std::lock_guard lock(retired_mutex_);
    ready.swap(retired_);
  }
  for (const Retired& each : ready)
    for (const auto& user : each.users) user->wait();
}

void hand_back(Runtime& runtime, std::span<const MemoryView> views) {
  for (const MemoryView& view : views) runtime.host_writes(view, "hands memory back to the caller");
}

CopyPiece whole_of(std::span<const CopyPiece> pieces) {
  CopyPiece whole = pieces.front();
  whole.to.bytes = whole.from.bytes = 0;
  for (const auto& [to, from] : pieces) {
    if (to.bytes != from.bytes)
      throw ProgramError("copy of " + std::to_string(from.bytes) + " bytes into " + std::to_string(to.bytes));
    if (to.place != whole.to.place || from.place != whole.from.place)
      throw ProgramError("copy of pieces between different places");
    whole.to.bytes += to.bytes;
    whole.from.bytes += from.bytes;
  }
  return whole;
}

Passage passage_of(Topology& topology, const MemoryView& from, const MemoryView& to) {
  return {from.place, to.place, to.bytes, topology.route(from.place, to.place, from.pageable || to.pageable).links};
}

std::vector<Passage> passages_of(Topology& topology, Place place, const Operation& operation) {
  std::vector<Passage> passages;
  for (const MemoryView& view : operation.writes) {
    if (view.place == place || view.bytes == 0) continue;
    const auto same = std::ranges::find(passages, view.place, &Passage::to);
    if (same != passages.end()) same->bytes += view.bytes;
    else passages.push_back({place, view.place, view.bytes, topology.route(place, view.place).links});
  }
  for (const Fetch& fetch : operation.fetches)
    passages.push_back({fetch.from, place, fetch.bytes, topology.route(fetch.from, place).links});
  return passages;
}

std::vector<PhaseTime> phase_times(std::span<const TimelineEntry> timeline) {
  std::vector<const TimelineEntry*> entries;
  for (const TimelineEntry& entry : timeline) entries.push_back(&entry);
  std::ranges::stable_sort(entries, {}, &TimelineEntry::start_ps);
  std::vector<PhaseTime> times;
  std::int64_t reached = entries.empty() ? 0 : entries.front()->start_ps;
  for (const TimelineEntry* entry : entries) {
    auto phase = std::ranges::find(times, entry->phase, &PhaseTime::phase);
    if (phase == times.end()) phase = times.insert(times.end(), {entry->phase, 0});
    phase->seconds += static_cast<double>(std::max<std::int64_t>(entry->end_ps - reached, 0)) * 1e-12;
    reached = std::max(reached, entry->end_ps);
  }
  return times;
}

}  // namespace linkwise
