#include "linkwise/transfer/router.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t grain = 512;  // bytes; copies are cut at multiples of it

void check_paths(std::span<const Path> paths) {
  for (const Path& path : paths) {
    double sum = 0;
    for (const Path& other : paths)
      if (other.from == path.from && other.to == path.to) sum += other.fraction;
    if (path.fraction < 0 || sum > 1 + 1e-6)
      throw UsageError("the paths from " + path.from.name() + " to " + path.to.name() +
                       " must carry between nothing and all of the bytes; they carry " + std::to_string(sum));
    for (const int gpu : path.over)
      if (Place::gpu(gpu) == path.from || Place::gpu(gpu) == path.to || std::ranges::count(path.over, gpu) > 1)
        throw UsageError("the path " + to_string(path) + " passes a GPU twice");
  }
}

}  // namespace

Router::Router(Runtime& runtime, std::span<const Path> paths, std::uint64_t chunk_bytes)
    : runtime_(runtime), chunk_bytes_(align_up(std::max(chunk_bytes, grain), grain)) {
  check_paths(paths);
  for (const Path& path : paths) {
    if (path.over.empty()) continue;
    Relay& relay = relays_.emplace_back();
    relay.path = path;
    const std::string name = "relay " + to_string(path);
    // A hop is issued by the GPU that it leaves, or by the one that it reaches from the host.
    relay.hops.push_back(runtime.stream(path.from.is_gpu() ? path.from : Place::gpu(path.over.front()), name));
    for (const int gpu : path.over) {
      relay.stations.push_back({runtime.allocate(Place::gpu(gpu), ring_chunks * chunk_bytes_, "relay"), {}});
      relay.hops.push_back(runtime.stream(Place::gpu(gpu), name + ", onwards"));
    }
  }
}

void Router::retire() {
  for (Relay& relay : relays_)
    for (Station& station : relay.stations) runtime_.retire(std::move(station.ring));
  relays_.clear();
}

std::uint64_t Router::ring_bytes(std::span<const Path> paths, std::uint64_t chunk_bytes, int gpu) {
  std::uint64_t rings = 0;
  for (const Path& path : paths) rings += static_cast<std::uint64_t>(std::ranges::count(path.over, gpu));
  return rings * ring_chunks * align_up(std::max(chunk_bytes, grain), grain);
}

void Router::copy(Stream stream, const MemoryView& to, const MemoryView& from) {
  if (to.bytes != from.bytes) throw ProgramError("a copy from " + std::to_string(from.bytes) + " bytes to others");
  std::vector<Event> arrived;
  std::uint64_t at = 0;
  double fraction = 0;
  Event ready;
  for (Relay& relay : relays_) {
    if (relay.path.from != from.place || relay.path.to != to.place) continue;
    if (arrived.empty()) ready = runtime_.record(stream);
    fraction += relay.path.fraction;
    const auto exact = static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(from.bytes)));
    const std::uint64_t end = fraction > 1 - 1e-6 ? from.bytes : std::min(exact / grain * grain, from.bytes);
    if (end <= at) continue;
    arrived.push_back(send(relay, ready, to.slice(at, end - at), from.slice(at, end - at)));
    at = end;
  }
  if (at < from.bytes || from.bytes == 0)
    runtime_.copy(stream, to.slice(at, from.bytes - at), from.slice(at, from.bytes - at));
  for (const Event event : arrived) runtime_.wait(stream, event);
}

void Router::copy(Stream stream, const Records& to, const Records& from) {
  if (from.count == 0) return;
  copy(stream, to.keys, from.keys);
  if (from.type.value != ValueWidth::none) copy(stream, to.values, from.values);
}

Event Router::send(Relay& relay, Event ready, const MemoryView& to, const MemoryView& from) {
  runtime_.wait(relay.hops.front(), ready);
  Event moved;
  for (std::uint64_t at = 0; at < from.bytes; at += chunk_bytes_) {
    const std::uint64_t bytes = std::min(chunk_bytes_, from.bytes - at), slot = relay.chunks++ % ring_chunks;
    MemoryView source = from.slice(at, bytes);
    for (std::size_t hop = 0; hop < relay.hops.size(); ++hop) {
      const Stream stream = relay.hops[hop];
      const bool is_last = hop == relay.stations.size();
      const MemoryView target =
          is_last ? to.slice(at, bytes) : relay.stations[hop].ring.slice(slot * chunk_bytes_, bytes);
      if (hop > 0) runtime_.wait(stream, moved);
      if (!is_last) runtime_.wait(stream, relay.stations[hop].free[slot]);
      runtime_.copy(stream, target, source);
      moved = runtime_.record(stream);
      if (hop > 0) relay.stations[hop - 1].free[slot] = moved;
      source = target;
    }
  }
  return moved;
}

}  // namespace linkwise
