// Radix sort by the most significant digits first: what does not depend on the values, and the sort of keys alone.
#include "linkwise/primitives/cuda/msd_sort/msd_sort.cuh"

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/msd_sort/record_sort.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint64_t most = 0xffffffff - msd::copied_at_once;  // leaves room for 32-bit sums that round up

msd::Extent extent_of(RecordType type, std::uint64_t count) {
  msd::Extent extent{};
  with_record(type, [&](auto key, auto value) {
    extent = msd::extent_of<typename decltype(key)::type, typename decltype(value)::type>(count);
  });
  return extent;
}

void append(KernelList& list, const KernelList& more) { list.insert(list.end(), more.begin(), more.end()); }

template <typename Key>
void add_kernels(KernelList& list) {
  append(list, {address(msd::look_at_sample<Key>), address(msd::count_spans<Key>), address(msd::split_buckets<Key>)});
  append(list, msd::kernels<Key, NoValue>());
  append(list, msd::RecordSort<Key>::kernels());
}

}  // namespace

KernelList msd_sort_kernels() {
  KernelList list{address(msd::sum_counters), address(msd::scan_counters)};
  add_kernels<std::uint32_t>(list);
  add_kernels<std::uint64_t>(list);
  return list;
}

std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) {
  if (count == 0 || count > most) return 0;
  bool fits = false;
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    fits = type.value == ValueWidth::none ? msd::fits_every_device<Key, NoValue>()
                                          : msd::RecordSort<Key>::fits_every_device(type.value);
  });
  return fits ? msd::scratch_bytes(extent_of(type, count)) : 0;
}

// With fewer records, kernel launches take too large a share of the time, above all for unevenly spread keys.
std::uint64_t fewest_for_msd_sort(RecordType type) {
  if (type.value == ValueWidth::none) return type.key == KeyWidth::k32 ? 36'000'000 : 4'000'000;
  return type.key == KeyWidth::k32 ? 12'000'000 : 2'000'000;
}

void look_at_keys(cudaStream_t stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                  SortBuffers buffers, void* scratch, KeySpread* spread) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    msd::look<Key>(stream, input, coding, extent_of(type, count), buffers, scratch, spread);
  });
}

void msd_sort(cudaStream_t stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result,
              RawRecords room, std::uint64_t count, void* scratch, std::uint64_t* checksum) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    const std::array records{input, result, room};
    if (type.value != ValueWidth::none)
      return msd::RecordSort<Key>::sort(stream, coding, type.value, records, count, scratch, checksum);
    msd::sort<Key, NoValue>(stream, msd::columns_of<Key, NoValue>(records, coding, count, checksum), scratch);
  });
}

}  // namespace linkwise::cuda
