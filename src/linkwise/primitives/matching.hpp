// What the rows of two sorted relations find in each other, and the rows of the result that follow from it.
//
// One side probes the other: for each of its rows, the range of equal keys over there. From the ranges follow the
// number of matches, sums over them without enumerating them, and, by running sums of what each row emits, where in the
// result its rows stand; so any window of the result can be written by itself, and in equal parts whatever the skew is.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// The probing side and the other, which is called the build side as in a hash join; the keys of that one rise.
struct Probe {
  KeyWidth width = KeyWidth::k32;
  MemoryView keys;
  MemoryView values;  ///< integers of 4 or 8 bytes to add up over the matches; empty: none
  IntegerType value_type;
  MemoryView build_keys;
  MemoryView build_sums;  ///< `running_sums` of the build side's values; empty: none
  Emission emission = Emission::pairs;
  MemoryView first;    ///< for each probing row, 32 bits (match_position); empty: not wanted
  MemoryView emitted;  ///< and how many rows it adds to the result, 32 bits
  /// Of the probing side, each then being near the one before it. Otherwise each is looked for everywhere: for a build
  /// side that is much shorter, so that sorting the other one would take longer.
  bool keys_rise = true;
};

/// The keys of one side's records against those of the other's; the rest is left open.
Probe probe_of(const Records& probing, const Records& build);

std::uint64_t probe_scratch_bytes(const Kernels& kernels, std::uint64_t probing_rows);
/// What probing with so many rows takes, and running sums over them.
std::uint64_t matching_scratch_bytes(const Kernels& kernels, std::uint64_t rows);
/// Sets *totals. With `first`, the build side has at most `max_build_rows` rows.
void probe(Runtime& runtime, Stream stream, const Probe& probe, const MemoryView& scratch, const MemoryView& totals);

/// The keys of both sides rise.
struct RangeSearch {
  KeyWidth width = KeyWidth::k32;
  MemoryView left_keys, right_keys;
  MemoryView ranges;  ///< KeyRange for each row of the shorter side; may be page-locked host memory
  MemoryView tiles;   ///< `range_tiles` of RangeTile; likewise
  /// As join25 §3.3.3 does it: three binary searches for each key of the shorter side, to compare. Otherwise a key is
  /// looked for near the one before it.
  bool each_key = false;
};
/// Of the shorter side.
std::uint64_t range_tiles(std::uint64_t left_rows, std::uint64_t right_rows);
std::uint64_t find_ranges_scratch_bytes(const Kernels& kernels, std::uint64_t left_rows, std::uint64_t right_rows);
/// The keys that both sides have, and the rows of each. How many there are nobody knows before, so that a kernel can
/// only write them straight to where they are wanted: to the host (join25 §3.3.3). Tiles take their places as they
/// come; in the order of the tiles, ranges are in that of keys.
void find_ranges(Runtime& runtime, Stream stream, const RangeSearch& search, const MemoryView& scratch,
                 const MemoryView& totals);

/// Codes of floats become those by which joins compare: -0.0 is 0.0, and every NaN one NaN. Of other types nothing
/// changes.
void unify_floats(Runtime& runtime, Stream stream, KeyType type, const MemoryView& codes);

/// Keys as numbers that look random, one for each: equal keys have equal ones, and no others do.
void hash_keys(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& from, const MemoryView& to);

/// Hashed keys of both sides, each in the order of their uppermost `bits` bits; what agrees in these is a partition.
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
/// Sets what of *totals is about pairs. A partition of the build side goes into a hash table in the memory that a
/// thread block shares, in several turns if it is longer.
void hash_probe(Runtime& runtime, Stream stream, const HashProbe& probe, const MemoryView& totals);

/// sums[i] = Σ_{j < i} values[j], modulo 2^64: one more than there are values.
void running_sums(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& values, const MemoryView& sums,
                  const MemoryView& scratch);

/// Where each row of a probing side begins in the result, and what it shows there.
struct Emitting {
  MemoryView first;    ///< as `probe` left it
  MemoryView offsets;  ///< running sums of `emitted`
};

/// Rows [window, window + count) of the result that the left side emits, as positions on both sides (32 bits,
/// no_position for none). Where the right side emits rows as well, they stand in between, in the order of keys.
/// `right` may be empty. What belongs to the right side is left as it is: `expand_unmatched` writes it.
void expand(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right, std::uint64_t window,
            const MemoryView& left_positions, const MemoryView& right_positions);
/// The rows of the same window that only the right side has.
void expand_unmatched(Runtime& runtime, Stream stream, const Emitting& left, const Emitting& right,
                      std::uint64_t window, const MemoryView& left_positions, const MemoryView& right_positions);

}  // namespace linkwise
