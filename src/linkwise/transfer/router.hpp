// Copies that know their way: straight, or over other GPUs in chunks, each of which goes on while the next one comes.
//
// A relay needs memory on the GPUs that it goes over: a ring of a few chunks for each path. tartan20 §4.1 routes over
// an intermediate GPU by whole messages, so two hops halve the bandwidth; in chunks they keep it, but for the first.
#pragma once

#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/machine/paths.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

class Router {
 public:
  /// Allocates the rings. Copies between places that no path names go straight.
  /// @throws UsageError for a path over one of its ends, or fractions that are not in [0, 1] in all.
  Router(Runtime& runtime, std::span<const Path> paths, std::uint64_t chunk_bytes);

  /// Copies by the stream's order: nothing is read or written before what was enqueued on the stream so far, and what
  /// is enqueued on it afterwards comes behind the whole copy.
  void copy(Stream stream, const MemoryView& to, const MemoryView& from);
  void copy(Stream stream, const Records& to, const Records& from);

  /// Gives the rings back once what has been enqueued so far has run; after this there are no more copies.
  void retire();

  /// Bytes of a GPU's memory that the rings take.
  static std::uint64_t ring_bytes(std::span<const Path> paths, std::uint64_t chunk_bytes, int gpu);

 private:
  static constexpr std::uint64_t ring_chunks = 3;  // one comes, one goes, one is spare

  /// A GPU on the way: where chunks are kept until they have gone on.
  struct Station {
    Buffer ring;
    Event free[ring_chunks];
  };
  struct Relay {
    Path path;
    std::vector<Station> stations;
    std::vector<Stream> hops;  // one more than stations
    std::uint64_t chunks = 0;  // that have been sent
  };
  [[nodiscard]] Event send(Relay& relay, Event ready, const MemoryView& to, const MemoryView& from);

  Runtime& runtime_;
  std::uint64_t chunk_bytes_;
  std::vector<Relay> relays_;
};

}  // namespace linkwise
