#include "linkwise/sort/local_sort.hpp"

#include <algorithm>

#include "linkwise/device/arena.hpp"
#include "linkwise/primitives/leading_digits.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t spread_bytes = device_alignment;  // of a KeySpread, aligned

void sort_by_msd(Runtime& runtime, Stream stream, const Records& first, const Records& second, bool into_first,
                 const MemoryView& scratch) {
  const KeyCoding coding = own_codes(first.type.key);
  const SortBuffers buffers = into_first ? SortBuffers::result_is_input : SortBuffers::room_is_input;
  const MemoryView of_sort = scratch.slice(spread_bytes, scratch.bytes - spread_bytes);
  constexpr ExpectedKeys expected = ExpectedKeys::wide;  // nobody waits for the spread
  look_at_keys(runtime, stream, coding, first, buffers, expected, of_sort, scratch.slice(0, sizeof(KeySpread)));
  msd_sort(runtime, stream, coding, first, into_first ? first : second, into_first ? second : first, expected, of_sort,
           {});
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

bool keys_suit_msd_sort(Runtime& runtime, KeyType type, bool descending, std::vector<SampleSource> sources,
                        RecordType record, std::uint64_t most) {
  const Kernels& kernels = runtime.kernels();
  if (!may_suit_msd_sort(kernels, record, most) || !may_have_leading_digits(kernels, record, most)) return false;
  const auto keys_of = [type](const SampleSource& source) {
    return source.keys.bytes / static_cast<std::uint64_t>(native_bytes(type));
  };
  std::uint64_t total = 0;
  for (const SampleSource& source : sources) total += keys_of(source);
  for (SampleSource& source : sources) source.samples = samples_of(keys_of(source), total, enough_to_look_at);
  Samples samples = gather_samples(runtime, type, descending, sources);
  const MemoryView digits = samples.allocate(runtime, kernels.leading_digits_bytes());
  const MemoryView scratch = samples.allocate(runtime, kernels.leading_digits_scratch_bytes(record, 0));
  const MemoryView numbers = samples.allocate(runtime, sizeof(KeySpread));
  const Records none{record, 0, {}, {}};
  look_at_all_keys(runtime, {samples.stream, own_codes(record.key), none, digits, scratch},
                   std::vector{samples.records.keys}, total, numbers);
  KeySpread spread;
  runtime.read_back({samples.stream, numbers, &spread, &even_spread});
  return suits_msd_sort(record, most, spread);
}

std::uint64_t bytes_to_look_at_keys(const Kernels& kernels, RecordType record) {
  constexpr std::uint64_t alignment = 8 << 10;  // of all allocations together
  return 2 * record_bytes(Samples::type(record.key), enough_to_look_at) + kernels.leading_digits_bytes() +
         kernels.leading_digits_scratch_bytes(record, 0) + alignment;
}

}  // namespace linkwise
