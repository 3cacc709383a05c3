#include "linkwise/sort/strategies/one_gpu_sort.hpp"

#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t small_things = 64 << 10;

KeySpread spread_of(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input, SortBuffers buffers,
                    const MemoryView& scratch) {
  Buffer numbers = runtime.allocate(stream.place, sizeof(KeySpread), "spread of the keys");
  look_at_keys(runtime, stream, coding, input, buffers, ExpectedKeys::narrow, scratch, numbers.view());
  KeySpread spread;
  runtime.read_back({stream, numbers.view(), &spread, &even_spread});
  runtime.retire(std::move(numbers));
  return spread;
}

}  // namespace

std::optional<SortedRecords> sort_on_one_gpu(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input,
                                             bool overwrites, const MemoryView& checksum) {
  if (!may_suit_msd_sort(runtime.kernels(), input.type, input.count)) return std::nullopt;
  runtime.set_phase("sort");
  const std::uint64_t scratch_bytes = runtime.kernels().msd_sort_scratch_bytes(input.type, input.count);
  const SortBuffers buffers = overwrites ? SortBuffers::room_is_input : SortBuffers::three;
  const std::uint64_t bytes = record_bytes(input.type, input.count);
  try {
    runtime.reserve(stream.place, (overwrites ? bytes : 2 * bytes) + scratch_bytes + small_things);
  } catch (const OutOfMemoryError&) {
    return std::nullopt;
  }
  Buffer scratch = runtime.allocate(stream.place, scratch_bytes, "sort scratch");
  std::optional<SortedRecords> sorted;
  const KeySpread spread = spread_of(runtime, stream, coding, input, buffers, scratch.view());
  if (suits_msd_sort(input.type, input.count, spread)) {
    Buffer memory = runtime.allocate(stream.place, bytes, "sorted records"), room;
    if (!overwrites) room = runtime.allocate(stream.place, bytes, "room");
    const Records result = records_in(memory.view(), input.type, input.count);
    msd_sort(runtime, stream, coding, input, result,
             overwrites ? input : records_in(room.view(), input.type, input.count), expected_keys(spread),
             scratch.view(), checksum);
    if (!overwrites) runtime.retire(std::move(room));
    sorted = SortedRecords{std::move(memory), result};
  }
  runtime.retire(std::move(scratch));
  return sorted;
}

}  // namespace linkwise
