// Matching the rows of two sorted relations, and writing the rows of the result.
//
// One side probes the other: for each probe row, find the range of equal keys on the build side. The ranges give the
// number of matches, and sums over the matches without enumerating them. Prefix sums of the number of rows that each
// row emits give their positions in the result; so any window of the result can be written independently, and the
// work can be divided evenly whatever the skew.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// The probe side and the build side, named as in a hash join. The build side's keys are in ascending order.
struct Probe {
  KeyWidth width = KeyWidth::k32;
  MemoryView keys;
  MemoryView values;  ///< integers of 4 or 8 bytes to add up over the matches; empty: none
  IntegerType value_type;
  MemoryView build_keys;
  MemoryView build_sums;  ///< `running_sums` of the build side's values; empty: none
  Emission emission = Emission::pairs;
  MemoryView first;    ///< for each probe row, 32 bits (see unmatched_bit); empty: not wanted
  MemoryView emitted;  ///< for each probe row, how many result rows it emits, 32 bits
  /// The probe keys are in ascending order too: each is searched near the one before it. Otherwise each is searched
  /// in the whole build side, which must be so much shorter that sorting the probe side would take longer.
  bool keys_rise = true;
};

/// A Probe with the keys of both sides; the other fields keep their defaults.
Probe probe_of(const Records& probing, const Records& build);

std::uint64_t probe_scratch_bytes(const Kernels& kernels, std::uint64_t probing_rows);
/// Scratch that suffices for probing with so many rows, and for prefix sums over them.
std::uint64_t matching_scratch_bytes(const Kernels& kernels, std::uint64_t rows);
/// Sets *totals. If `first` is wanted, the build side may have at most `max_build_rows` rows.
void probe(Runtime& runtime, Stream stream, const Probe& probe, const MemoryView& scratch, const MemoryView& totals);

/// The keys of both sides are in ascending order.
struct RangeSearch {
  KeyWidth width = KeyWidth::k32;
  MemoryView left_keys, right_keys;
  MemoryView ranges;  ///< KeyRange for each row of the shorter side; may be page-locked host memory
  MemoryView tiles;   ///< `range_tiles` of RangeTile; likewise
  /// For comparison, search as join25 §3.3.3 does: three binary searches for each key of the shorter side. Otherwise
  /// each key is searched near the one before it.
  bool each_key = false;
};
/// The number of tiles of the shorter side.
std::uint64_t range_tiles(std::uint64_t left_rows, std::uint64_t right_rows);
std::uint64_t find_ranges_scratch_bytes(const Kernels& kernels, std::uint64_t left_rows, std::uint64_t right_rows);
/// Finds the keys that both sides have, and the rows of each. Their number is not known in advance, so the kernel
/// writes the ranges directly to their destination: the host (join25 §3.3.3). Tiles are placed in the order in which
/// they finish; read tile by tile, the ranges are in key order.
void find_ranges(Runtime& runtime, Stream stream, const RangeSearch& search, const MemoryView& scratch,
                 const MemoryView& totals);

/// Makes codes of floats those that joins compare: -0.0 equals 0.0, and all NaNs are equal. No-op for other types.
void unify_floats(Runtime& runtime, Stream stream, KeyType type, const MemoryView& codes);

/// Hashes keys bijectively: equal keys, and no others, have equal hashes.
void hash_keys(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& from, const MemoryView& to);

/// Hashed keys of both sides, each ordered by the uppermost `bits` bits; keys that agree in these form a partition.
struct HashProbe {
  KeyWidth width = KeyWidth::k32;
  int bits = 1;
  MemoryView keys;
  MemoryView values;  ///< integers to add up over the matches; empty: none
  IntegerType value_type;
  MemoryView build_keys;
  MemoryView build_values;
  IntegerType build_value_type;
};
/// Sets *totals, except for matched_rows. Each partition of the build side goes into a hash table in shared memory,
/// in several rounds if it does not fit at once.
void hash_probe(Runtime& runtime, Stream stream, const HashProbe& probe, const MemoryView& totals);

/// sums[i] = Σ_{j < i} values[j], modulo 2^64: one more than there are values.
void running_sums(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& values, const MemoryView& sums,
                  const MemoryView& scratch);

/// What each row of a side emits, and where in the result that begins.
struct Emitting {
  MemoryView first;    ///< as `probe` left it
  MemoryView offsets;  ///< prefix sums of `emitted`
};

/// Of rows [window, window + count) of the result, writes those that the left side emits, as positions on both sides
/// (32 bits, no_position for none). If the right side emits rows as well, both sides' rows are interleaved in key
/// order; those of the right side are left untouched, for `expand_unmatched`. `right` may be empty.
void expand(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right, std::uint64_t window,
            const MemoryView& left_positions, const MemoryView& right_positions);
/// Writes the rows of the same window that only the right side has.
void expand_unmatched(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right,
                      std::uint64_t window, const MemoryView& left_positions, const MemoryView& right_positions);

}  // namespace linkwise
