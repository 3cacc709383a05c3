// Building blocks of an unpartitioned join on the GPUs: one table of the whole build side in GPU memory, in which each
// row of the probe side is looked up where it lies (the no-partitioning join of Blanas et al., SIGMOD 2011).
//
// It reads the probe side once and moves none of it, so it is the fastest join while the table fits the L2 cache, and
// for dense integer keys beyond that.
#pragma once

#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/primitives/join_table_steps.hpp"

namespace linkwise {

/// A table of a build side whose rows are one part. Its rows have 4-byte numbers.
struct JoinTable {
  TableKind kind = TableKind::hashed;
  HashSide build;
  std::uint64_t places = 1, least = 0;  ///< see RawJoinTable
  MemoryView entries;                   ///< entry_bytes()
  MemoryView state;                     ///< a TableState

  static JoinTable hashed(const HashSide& build);
  /// A direct table or a bitmap for integer keys in this range.
  static JoinTable by_key(const HashSide& build, TableKind kind, CodeRange range);
  /// Slots of a hashed table, which is at most half full; less so if an SM's cache holds it, where more cost nothing.
  static std::uint64_t slots_for(KeyWidth width, std::uint64_t rows);
  /// Rows that a hashed table takes: its first slots are bits of the hash, of which short keys have few.
  static std::uint64_t most_hashed_rows(KeyWidth width) {
    return width == KeyWidth::k32 ? std::uint64_t{1} << 31 : most_rows;
  }
  /// Places of a table by key; 0 if they are more than 2^32.
  static std::uint64_t places_in(CodeRange range);
  [[nodiscard]] std::uint64_t entry_bytes() const { return table_bytes(kind, build.width(), places); }
  static constexpr std::uint64_t most_rows = RawJoinTable::nobody - std::uint64_t{1};
};

/// Clears the table and the state, and enters the build rows.
void fill_join_table(Runtime& runtime, Stream stream, const JoinTable& table);
/// Sets the state's `missing`.
void check_join_table(Runtime& runtime, Stream stream, const JoinTable& table);

/// What the steps take by the machine model, whose rates for random accesses are an H200's, scaled by the memory's.
double seconds_to_fill_table(const Runtime& runtime, TableKind kind, std::uint64_t rows, std::uint64_t table_bytes);
/// Lookups of which each also reads and writes so many bytes of columns.
double seconds_of_lookups(const Runtime& runtime, TableKind kind, std::uint64_t rows, std::uint64_t table_bytes,
                          double row_bytes);

struct TableProbe {
  JoinTable table;
  HashSide probe;
  Emission emission = Emission::pairs;
  MemoryView met;  ///< a byte for each build row, set to whether it matched; empty: not wanted
  bool adds_values = false;
  bool may_repeat = true;  ///< keys of the build side; not if a table's state was read that says so
};
/// Sets *totals, unless the table is unusable.
void count_table_matches(Runtime& runtime, Stream stream, const TableProbe& probe, const MemoryView& totals);
/// Writes as many rows of the result as the columns have room for, in any order; `taken`: 8 bytes for the number of
/// all. Nothing if the table is unusable.
void write_table_matches(Runtime& runtime, Stream stream, const TableProbe& probe, const HashColumn& of_probe,
                         const HashColumn& of_build, std::uint64_t capacity, const MemoryView& taken);

}  // namespace linkwise
