// The primitives: checked, declared and enqueued on a stream, the same for every backend.
//
// Each function validates its arguments (ProgramError), declares the bytes that it reads and writes, names
// its row in the machine's rate table, and hands the work to the runtime's kernels. All are asynchronous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/kernels.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// `count` keys and, unless the value width is 0, as many values, at one place.
struct Records {
  RecordType type;
  std::uint64_t count = 0;
  MemoryView keys;
  MemoryView values;

  [[nodiscard]] Records slice(std::uint64_t first, std::uint64_t length) const;
  [[nodiscard]] Place place() const { return keys.place; }
  [[nodiscard]] RawRecords raw() const { return {keys.data, values.data}; }
};

/// Views of `count` records in `memory`: keys first, then the values, aligned.
/// @throws ProgramError if they do not fit; `record_bytes` says how much they need.
Records records_in(const MemoryView& memory, RecordType type, std::uint64_t count);
std::uint64_t record_bytes(RecordType type, std::uint64_t count);

/// Sorts by the given key bits; returns which of the two holds the result. Stable.
Records sort(Runtime& runtime, Stream stream, const Records& primary, const Records& secondary, BitRange bits,
             const MemoryView& scratch);

/// A key distribution that suits `msd_sort`; estimates assume it.
constexpr KeySpread even_spread{.in_digits = 1 << 14, .in_first_quarter = 1 << 12};
/// Whether `msd_sort` is faster than `sort` for keys of this distribution: if they are about equally dense all over a
/// digit's range. Keys that cluster at its beginning, or close to each other, stay together level after level. For
/// 32-bit keys, many duplicates rule it out as well, unless nearly all keys are duplicates, and so do, for short
/// records, keys that occur from about fifty to some thousand times, if the sample tells. Many narrow keys always suit.
bool suits_msd_sort(RecordType type, std::uint64_t count, const KeySpread& spread);
/// Whether `msd_sort` supports such records, and there are enough of them.
bool may_suit_msd_sort(const Kernels& kernels, RecordType type, std::uint64_t count);
/// Samples the native keys' distribution, and prepares `msd_sort` in the scratch. `expected`: narrow if the caller
/// reads the spread, and passes on what it tells. `spread`: a KeySpread.
void look_at_keys(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input, SortBuffers buffers,
                  ExpectedKeys expected, const MemoryView& scratch, const MemoryView& spread);
inline ExpectedKeys expected_keys(const KeySpread& spread) {
  return spread.is_narrow != 0 ? ExpectedKeys::narrow : ExpectedKeys::wide;
}
/// Stable MSD radix sort of records with native keys into `result`, after `look_at_keys` with the same input, buffers
/// and scratch, expecting what its spread tells. `result` and `room`, a spare buffer, are as long as the input, which
/// may be one of them. `checksum`: 8 bytes for the input's checksum, or empty. Bytes of scratch:
/// kernels().msd_sort_scratch_bytes, which is 0 where the sort is not supported.
void msd_sort(Runtime& runtime, Stream stream, KeyCoding coding, const Records& input, const Records& result,
              const Records& room, ExpectedKeys expected, const MemoryView& scratch, const MemoryView& checksum);

/// Merges two sorted inputs into `to`; of equal keys, those of `left` come first.
void merge(Runtime& runtime, Stream stream, const Records& left, const Records& right, const Records& to,
           const MemoryView& scratch);
/// Copies keys and values.
void copy(Runtime& runtime, Stream stream, const Records& to, const Records& from);

void encode(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& from,
            const MemoryView& to);
void decode(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& from,
            const MemoryView& to);
void iota(Runtime& runtime, Stream stream, ValueWidth width, const MemoryView& to, std::uint64_t first);
/// The positions of the marked elements, counted from `first` on, of 8 bytes. `sums`: what running_sums makes of the
/// marks, of which `to` has exactly as many as there are.
void list_marked(Runtime& runtime, Stream stream, const MemoryView& marks, const MemoryView& sums, std::uint64_t first,
                 const MemoryView& to);
/// Sets the mark, of 32 bits, of each element that differs from the one before it; elements of 1, 2, 4 or 8 bytes.
/// `before`: the element before the first one, which this device can read; empty if there is none.
void mark_changes(Runtime& runtime, Stream stream, int element_bytes, const MemoryView& elements,
                  const MemoryView& before, const MemoryView& marks);
/// Sets every byte.
void set_bytes(Runtime& runtime, Stream stream, const MemoryView& to, std::uint8_t byte);
/// Takes as many samples of native keys as `tags` has room for. A GPU's stream can sample its own memory and
/// page-locked host memory; the host's stream, all host memory.
void sample(Runtime& runtime, Stream stream, KeyType type, bool descending, const MemoryView& keys, std::uint64_t seed,
            std::uint64_t tag_base, const MemoryView& codes, const MemoryView& tags);
void histogram(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& keys, BitRange bits,
               const Prefixes& prefixes, const MemoryView& counts);

/// totals: splitters.count + 1 counters of 64 bits.
void partition_count(Runtime& runtime, Stream stream, const Records& from, const Splitters& splitters,
                     const MemoryView& scratch, const MemoryView& totals);
/// destinations[d] has exactly as many records as `partition_count` found for d, on any GPU. Those for GPUs that this
/// one cannot reach are copied there, which takes as much memory here until the runtime has been synchronised.
void partition(Runtime& runtime, Stream stream, const Records& from, const Splitters& splitters,
               const MemoryView& scratch, std::span<const Records> destinations);

void checksum(Runtime& runtime, Stream stream, const Records& records, const MemoryView& sum);
/// Checks records that should be sorted, in a single read; numbers: PartNumbers. There must be at least one record.
void check_part(Runtime& runtime, Stream stream, KeyCoding coding, const Records& sorted, const MemoryView& numbers);
void check_order(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& keys, const MemoryView& violations);
/// `left` and `right` are sorted sequences in pieces, on devices that the stream's device can read.
void select_pivot(Runtime& runtime, Stream stream, std::span<const Records> left, std::span<const Records> right,
                  const MemoryView& pivot);

}  // namespace linkwise
