// An MSD radix sort across GPUs whose first level is the exchange: every GPU cuts its records by the same leading
// digits, stores each digit's records in the memory of the GPU that sorts them, and goes on with the next digits of
// what it has received. So the records cross memory and links once where an exchange by splitters and a local sort
// move them twice (join25 §3.1.2 exchanges buckets of leading bits; Stehle and Jacobsen, SIGMOD 2017, sort on).
//
// The steps, on native keys: sample every source; look at all samples on every GPU, which yields the same digits
// everywhere; count each source's digits; read the counts back and assign digits to parts; store; sort each part.
#pragma once

#include <span>

#include "linkwise/primitives/leading_digits_steps.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Whether the kernels support this for such records; most_part: the most records of a source or part.
bool may_have_leading_digits(const Kernels& kernels, RecordType type, std::uint64_t most_part);

/// As many keys, sampled from all sources, tell how they are distributed: a sort of one GPU samples as many itself.
constexpr std::uint64_t enough_to_look_at = 1 << 14;

/// One GPU's part in the shared first level.
struct LeadingDigits {
  Stream stream;
  KeyCoding coding;
  Records source;      ///< this GPU's input, which is only read
  MemoryView digits;   ///< kernels().leading_digits_bytes(): how keys are cut
  MemoryView scratch;  ///< kernels().leading_digits_scratch_bytes() for the source or a part
};

/// Chooses digits by codes that were sampled from all sources, which have `total` keys, and prepares counting. The
/// stream's GPU reads the samples wherever they are. `spread`: a KeySpread of the sample.
void look_at_all_keys(Runtime& runtime, const LeadingDigits& level, std::span<const MemoryView> samples,
                      std::uint64_t total, const MemoryView& spread);
/// counts: LeadingDigitCounts.
void count_leading_digits(Runtime& runtime, const LeadingDigits& level, const MemoryView& counts);
/// Stores the source's codes, and values, in the parts, which may be on any GPU. `counts`: the source's. `checksum`: 8
/// bytes for the source's checksum, or empty. Stable.
void store_leading_digits(Runtime& runtime, const LeadingDigits& level, const LeadingDigitCounts& counts,
                          const DigitPlaces& places, std::span<const Records> parts, const MemoryView& checksum);
/// Sorts a part that has been received, in place; its keys become native. Stable. `room`: spare memory of its size.
void sort_received_digits(Runtime& runtime, const LeadingDigits& level, const ReceivedDigits& received,
                          const Records& part, const Records& room);

}  // namespace linkwise
