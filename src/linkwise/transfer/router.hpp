// Routed copies: directly, or relayed over other GPUs in chunks, each of which is forwarded while the next one
// arrives.
//
// A relay needs memory on its intermediate GPUs: a ring of a few chunks for each path. tartan20 §4.1 routes whole
// messages over an intermediate GPU, so two hops halve the bandwidth. Forwarding in chunks keeps it, except for the
// first chunk.
#pragma once

#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/machine/paths.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

class Router {
 public:
  /// Allocates the rings. Copies between places without a path go directly.
  /// @throws UsageError for a path that passes a GPU twice, or if the fractions between two places are negative or
  /// sum to more than 1.
  Router(Runtime& runtime, std::span<const Path> paths, std::uint64_t chunk_bytes);

  /// Copies in stream order: after all work enqueued on the stream so far, and before any enqueued later.
  void copy(Stream stream, const MemoryView& to, const MemoryView& from);
  void copy(Stream stream, const Records& to, const Records& from);

  /// Frees the rings once all work enqueued so far has run. There must be no more copies afterwards.
  void retire();

  /// Bytes of a GPU's memory that the rings take.
  static std::uint64_t ring_bytes(std::span<const Path> paths, std::uint64_t chunk_bytes, int gpu);

 private:
  static constexpr std::uint64_t ring_chunks = 3;  // one chunk arrives, one leaves, one is spare

  /// An intermediate GPU, where chunks are kept until they have been forwarded.
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
