// The sort of records with values by the most significant digits first, compiled apart for each width of keys.
#pragma once

#include <array>
#include <cstdint>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"

namespace linkwise::cuda::msd {

template <typename Key>
struct RecordSort {
  static KernelList kernels();
  static bool fits_every_device(ValueWidth value);
  /// Stable. `records`: input, result and room. Call after look_at_keys.
  static void sort(cudaStream_t stream, KeyCoding coding, ValueWidth value, std::array<RawRecords, 3> records,
                   std::uint64_t count, void* scratch, std::uint64_t* checksum);
  static void store_leading(cudaStream_t stream, const RawLeadingDigits& level, const DigitPlaces& places,
                            const RawDestinations& parts, std::uint64_t* checksum);
  static void sort_received(cudaStream_t stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                            RawRecords part, RawRecords room, std::uint64_t count);
};
extern template struct RecordSort<std::uint32_t>;
extern template struct RecordSort<std::uint64_t>;

}  // namespace linkwise::cuda::msd
