// Makes columns on the GPUs, a part on each.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise {

/// Makes a part on each GPU: `bytes_of` returns its size, and `fill` enqueues what writes it. `lent` is the caller's
/// host memory that this reads. Blocks until all is there.
template <typename BytesOf, typename Fill>
std::vector<ColumnPart> make_parts(Runtime& runtime, std::span<const int> gpus, const BytesOf& bytes_of,
                                   const Fill& fill, const std::vector<MemoryView>& lent = {}) {
  std::vector<ColumnPart> parts;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Place place = Place::gpu(gpus[g]);
      const Stream stream = runtime.stream(place, "compute");
      Buffer memory = runtime.allocate(place, bytes_of(g), "column");
      if (bytes_of(g) > 0) fill(g, stream, memory.view());
      parts.push_back({gpus[g], std::move(memory), runtime.share(runtime.record(stream))});
    }
    runtime.synchronize();
    hand_back(runtime, lent);
  });
  return parts;
}

}  // namespace linkwise
