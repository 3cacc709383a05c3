// Radix sort by the most significant digits first: what does not depend on the values, and the sort of keys alone.
#include "linkwise/primitives/cuda/msd_sort/leading_digits.cuh"

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/msd_sort/record_sort.hpp"

namespace linkwise::cuda {
namespace {

// Leaves room for 32-bit sums that round up, and for the positions of pages in the scratch.
constexpr std::uint64_t most = 0xffffffff - std::uint64_t{most_leading_digits} * msd::tile_records<std::uint32_t>;

msd::Extent extent_of(RecordType type, std::uint64_t count, ExpectedKeys expected = ExpectedKeys::wide) {
  msd::Extent extent{};
  with_record(type, [&](auto key, auto value) {
    extent = msd::extent_of<typename decltype(key)::type, typename decltype(value)::type>(count);
  });
  if (expected == ExpectedKeys::wide) extent.narrow = {};
  return extent;
}
msd::Extent leading_extent_of(RecordType type, std::uint64_t count) {
  return msd::with_most_digits(extent_of(type, count));
}

bool is_supported(RecordType type, std::uint64_t count) {
  bool fits = false;
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    fits = type.value == ValueWidth::none ? msd::fits_every_device<Key, NoValue>()
                                          : msd::RecordSort<Key>::fits_every_device(type.value);
  });
  return fits && count <= most;
}

void append(KernelList& list, const KernelList& more) { list.insert(list.end(), more.begin(), more.end()); }

template <typename Key>
void add_kernels(KernelList& list) {
  append(list, {address(msd::look_at_sample<Key>), address(msd::count_spans<Key, msd::Way::usual>),
                address(msd::split_buckets<Key>), address(msd::begin_received<Key>)});
  append(list, msd::kernels<Key, NoValue>());
  append(list, {address(msd::partition_into_pages<Key, Key>), address(msd::split_pages<Key, Key>)});
  append(list, msd::RecordSort<Key>::kernels());
}

}  // namespace

KernelList msd_sort_kernels() {
  KernelList list{address(msd::sum_counters), address(msd::scan_counters), address(msd::tell_counts),
                  address(msd::set_destinations)};
  add_kernels<std::uint32_t>(list);
  add_kernels<std::uint64_t>(list);
  append(list, msd::kernels_of_narrow_keys());
  return list;
}

std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) {
  return count > 0 && is_supported(type, count) ? msd::scratch_bytes(extent_of(type, count)) : 0;
}

// With fewer records, launches and the sample take too large a share of the time where CUB's sort is taken after all:
// the sample takes 70 µs, which is about a tenth of CUB's time at these counts.
std::uint64_t fewest_for_msd_sort(RecordType type) {
  if (type.value == ValueWidth::none) return type.key == KeyWidth::k32 ? 36'000'000 : 7'000'000;
  return type.key == KeyWidth::k32 ? 12'000'000 : 2'000'000;
}

void look_at_keys(cudaStream_t stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                  SortBuffers buffers, ExpectedKeys expected, void* scratch, KeySpread* spread) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    msd::look<Key>(stream, input, coding, extent_of(type, count, expected), buffers, scratch, spread);
  });
}

void msd_sort(cudaStream_t stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result,
              RawRecords room, std::uint64_t count, ExpectedKeys expected, void* scratch, std::uint64_t* checksum) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    const std::array records{input, result, room};
    if (type.value != ValueWidth::none)
      return msd::RecordSort<Key>::sort(stream, coding, type.value, records, count, scratch, checksum);
    msd::sort<Key, NoValue>(stream, msd::columns_of<Key, NoValue>(records, coding, count, checksum),
                            extent_of(type, count, expected), scratch);
  });
}

std::uint64_t leading_digits_bytes() { return sizeof(msd::Root); }

std::uint64_t leading_digits_scratch_bytes(RecordType type, std::uint64_t count) {
  return is_supported(type, count) ? msd::scratch_bytes(leading_extent_of(type, count)) : 0;
}

void look_at_all_keys(cudaStream_t stream, const RawLeadingDigits& level, const RawSegments& samples,
                      std::uint64_t total, KeySpread* spread) {
  with_key(level.type.key, [&](auto key) {
    msd::look_at_all<typename decltype(key)::type>(stream, level, leading_extent_of(level.type, level.count), samples,
                                                   total, spread);
  });
}

void count_leading_digits(cudaStream_t stream, const RawLeadingDigits& level, LeadingDigitCounts* counts) {
  const msd::Extent extent = leading_extent_of(level.type, level.count);
  with_key(level.type.key,
           [&](auto key) { msd::count_leading<typename decltype(key)::type>(stream, level, extent, counts); });
}

void store_leading_digits(cudaStream_t stream, const RawLeadingDigits& level, const DigitPlaces& places,
                          const RawDestinations& parts, std::uint64_t* checksum) {
  with_key(level.type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    if (level.type.value != ValueWidth::none)
      return msd::RecordSort<Key>::store_leading(stream, level, places, parts, checksum);
    msd::store_leading<Key, NoValue>(stream, level, places, parts, checksum);
  });
}

void sort_received_digits(cudaStream_t stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                          RawRecords part, RawRecords room, std::uint64_t count) {
  with_key(level.type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    if (level.type.value != ValueWidth::none)
      return msd::RecordSort<Key>::sort_received(stream, level, received, part, room, count);
    msd::sort_received<Key, NoValue>(stream, level, received, part, room, count);
  });
}

}  // namespace linkwise::cuda
