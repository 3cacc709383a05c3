#include "linkwise/transfer/device_columns.hpp"

#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/transfer/column_share.hpp"

namespace linkwise {
namespace {

// A part on each GPU, of which `fill` says how large it is and what writes it.
template <typename BytesOf, typename Fill>
std::vector<ColumnPart> make_parts(Runtime& runtime, std::span<const int> gpus, const BytesOf& bytes_of,
                                   const Fill& fill) {
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
  });
  return parts;
}

}  // namespace

std::vector<ColumnPart> bring_column(Runtime& runtime, std::span<const int> gpus, const HostColumn& column) {
  const auto width = static_cast<std::uint64_t>(column.element_bytes);
  const auto share = [&](std::size_t g) { return share_of(column.count, g, gpus.size()); };
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return share(g).count() * width; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("HtoD");
        runtime.copy(stream, to, host_view(column.data, share(g).begin * width, to.bytes, column.pageable));
      });
}

std::vector<ColumnPart> take_rows(Runtime& runtime, std::span<const int> gpus, int element_bytes,
                                  std::span<const MemoryView> column, int number_bytes,
                                  std::span<const MemoryView> numbers) {
  if (!runtime.peers_can_read(gpus))
    throw UsageError("these GPUs cannot read each other's memory; take the rows in host memory");
  const auto rows = [&](std::size_t g) { return numbers[g].bytes / static_cast<std::uint64_t>(number_bytes); };
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return rows(g) * static_cast<std::uint64_t>(element_bytes); },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("gather");
        gather(runtime, stream, element_bytes, number_bytes, column, numbers[g], to);
      });
}

void fetch_column(Runtime& runtime, std::span<const MemoryView> column, void* to) {
  runtime.clear_timeline();
  runtime.set_phase("DtoH");
  run_or_abandon(runtime, [&] {
    std::uint64_t at = 0;
    for (const MemoryView& part : column) {
      runtime.copy(runtime.stream(part.place, "compute"), host_view(to, at, part.bytes, true), part);
      at += part.bytes;
    }
    runtime.synchronize();
  });
}

}  // namespace linkwise
