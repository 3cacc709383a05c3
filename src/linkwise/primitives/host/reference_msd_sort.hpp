// The MSD radix sort as the virtual machine runs it: the same steps and results as the CUDA kernels', by simple means.
#pragma once

#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// A digit of the first level is a quarter of the keys' range; only in_digits and in_first_quarter are set.
KeySpread look_at_keys_on_host(KeyCoding coding, KeyWidth width, const void* keys, std::uint64_t count);
/// The room holds garbage afterwards.
void msd_sort_on_host(KeyCoding coding, RecordType type, RawRecords input, RawRecords result, RawRecords room,
                      std::uint64_t count);

/// Leading digits of equal width over the range of the sample, and one on each side for what lies beyond it.
struct ReferenceDigits {
  std::uint64_t least = 0, greatest = 0, width = 1;
  std::uint64_t digits = 0;

  [[nodiscard]] std::uint64_t operator()(std::uint64_t code) const {
    if (code < least) return 0;
    return code > greatest ? digits - 1 : 1 + (code - least) / width;
  }
};

ReferenceDigits look_at_all_keys_on_host(KeyWidth width, const RawSegments& samples, KeySpread& spread);
LeadingDigitCounts count_leading_digits_on_host(const RawLeadingDigits& level);
void store_leading_digits_on_host(const RawLeadingDigits& level, const DigitPlaces& places,
                                  const RawDestinations& parts);
/// @throws ProgramError if a record is not among those of its digit.
void sort_received_digits_on_host(const RawLeadingDigits& level, const ReceivedDigits& received, RawRecords part,
                                  RawRecords room, std::uint64_t count);

}  // namespace linkwise
