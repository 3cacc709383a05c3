#include "linkwise/sort/local_sort.hpp"

#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {

LocalSort::LocalSort(Runtime& runtime, Stream stream, RecordType type, std::uint64_t most)
    : runtime_(runtime), stream_(stream) {
  scratch_ = runtime.allocate(stream.place, runtime.kernels().sort_scratch_bytes(type, most), "sort scratch");
}

void LocalSort::allow_msd(RecordType type, std::uint64_t most) {
  const Kernels& kernels = runtime_.kernels();
  if (!may_suit_msd_sort(kernels, type, most)) return;
  try {
    msd_scratch_ = runtime_.allocate(stream_.place, kernels.msd_sort_scratch_bytes(type, most), "sort scratch");
    spread_ = runtime_.allocate(stream_.place, sizeof(KeySpread), "spread of the keys");
  } catch (const OutOfMemoryError&) {
    return;  // without memory for a spread, LSD radix sort is used
  }
}

Records LocalSort::sort(const Records& first, const Records& second, BitRange bits, bool lands) {
  const bool by_msd = spread_.view().bytes > 0 && may_suit_msd_sort(runtime_.kernels(), first.type, first.count);
  if (!by_msd) return linkwise::sort(runtime_, stream_, first, second, bits, scratch_.view());
  const Records &result = lands ? second : first, &room = lands ? first : second;
  const KeyCoding coding = own_codes(first.type.key);
  const SortBuffers buffers = lands ? SortBuffers::room_is_input : SortBuffers::result_is_input;
  look_at_keys(runtime_, stream_, coding, first, buffers, msd_scratch_.view(), spread_.view());
  msd_sort(runtime_, stream_, coding, first, result, room, msd_scratch_.view(), {});
  return result;
}

void LocalSort::retire() {
  for (Buffer* buffer : {&scratch_, &msd_scratch_, &spread_})
    if (buffer->view().bytes > 0) runtime_.retire(std::move(*buffer));
}

}  // namespace linkwise
