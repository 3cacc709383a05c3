#include "linkwise/sort/local_sort.hpp"

#include <algorithm>

#include "linkwise/device/arena.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t spread_bytes = device_alignment;  // of a KeySpread, aligned

void sort_by_msd(Runtime& runtime, Stream stream, const Records& first, const Records& second, bool into_first,
                 const MemoryView& scratch) {
  const KeyCoding coding = own_codes(first.type.key);
  const SortBuffers buffers = into_first ? SortBuffers::result_is_input : SortBuffers::room_is_input;
  const MemoryView of_sort = scratch.slice(spread_bytes, scratch.bytes - spread_bytes);
  look_at_keys(runtime, stream, coding, first, buffers, of_sort, scratch.slice(0, sizeof(KeySpread)));
  msd_sort(runtime, stream, coding, first, into_first ? first : second, into_first ? second : first, of_sort, {});
}

}  // namespace

std::uint64_t local_sort_scratch_bytes(const Kernels& kernels, RecordType type, std::uint64_t most) {
  const std::uint64_t of_lsd = kernels.sort_scratch_bytes(type, most);
  if (!may_suit_msd_sort(kernels, type, most)) return of_lsd;
  return std::max(of_lsd, spread_bytes + kernels.msd_sort_scratch_bytes(type, most));
}

Records sort_locally(Runtime& runtime, Stream stream, const Records& first, const Records& second, LocalSort how,
                     const MemoryView& scratch) {
  using Into = LocalSort::Into;
  if (first.count == 0) return how.into == Into::second ? second : first;
  const Kernels& kernels = runtime.kernels();
  if (how.by_msd && may_suit_msd_sort(kernels, first.type, first.count)) {
    sort_by_msd(runtime, stream, first, second, how.into == Into::first, scratch);
    return how.into == Into::first ? first : second;
  }
  // One more bit may need one more pass, after which the result is in the other buffer.
  const auto lands = [&] { return kernels.sort_lands_in_secondary(first.type, first.count, how.bits); };
  if (how.into != Into::either)
    while (lands() != (how.into == Into::second) && how.bits.end < first.type.key_bits()) ++how.bits.end;
  const Records sorted = sort(runtime, stream, first, second, how.bits, scratch);
  if (how.into == Into::either) return sorted;
  const Records& wanted = how.into == Into::first ? first : second;
  if (sorted.keys.data != wanted.keys.data) copy(runtime, stream, wanted, sorted);
  return wanted;
}

}  // namespace linkwise
