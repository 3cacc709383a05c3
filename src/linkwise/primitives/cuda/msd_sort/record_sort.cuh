// Defines RecordSort.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/leading_digits.cuh"
#include "linkwise/primitives/cuda/msd_sort/record_sort.hpp"

namespace linkwise::cuda::msd {

/// Calls body(Tag<Value>{}).
template <typename Body>
void with_bytes(ValueWidth width, Body&& body) {
  with_value(width, [&](auto value) {
    if constexpr (has_bytes<typename decltype(value)::type>) body(value);
  });
}

template <typename Key>
KernelList RecordSort<Key>::kernels() {
  // Those of this file: each file has kernels of its own, templates too.
  KernelList list{address(sum_counters),       address(scan_counters),    address(count_spans<Key, Way::usual>),
                  address(split_buckets<Key>), address(set_destinations), address(begin_received<Key>)};
  for (const ValueWidth width : {ValueWidth::v4, ValueWidth::v8, ValueWidth::v16})
    with_bytes(width, [&](auto value) {
      const KernelList more = msd::kernels<Key, typename decltype(value)::type>();
      list.insert(list.end(), more.begin(), more.end());
    });
  return list;
}

template <typename Key>
bool RecordSort<Key>::fits_every_device(ValueWidth width) {
  bool fits = false;
  with_bytes(width, [&](auto value) { fits = msd::fits_every_device<Key, typename decltype(value)::type>(); });
  return fits;
}

template <typename Key>
void RecordSort<Key>::sort(cudaStream_t stream, KeyCoding coding, ValueWidth width, std::array<RawRecords, 3> records,
                           std::uint64_t count, void* scratch, std::uint64_t* checksum) {
  with_bytes(width, [&](auto value) {
    using Value = typename decltype(value)::type;
    msd::sort<Key, Value>(stream, columns_of<Key, Value>(records, coding, count, checksum),
                          msd::extent_of<Key, Value>(count), scratch);
  });
}

template <typename Key>
void RecordSort<Key>::store_leading(cudaStream_t stream, const RawLeadingDigits& level, const DigitPlaces& places,
                                    const RawDestinations& parts, std::uint64_t* checksum) {
  with_bytes(level.type.value, [&](auto value) {
    msd::store_leading<Key, typename decltype(value)::type>(stream, level, places, parts, checksum);
  });
}

template <typename Key>
void RecordSort<Key>::sort_received(cudaStream_t stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                                    RawRecords part, RawRecords room, std::uint64_t count) {
  with_bytes(level.type.value, [&](auto value) {
    msd::sort_received<Key, typename decltype(value)::type>(stream, level, received, part, room, count);
  });
}

}  // namespace linkwise::cuda::msd
