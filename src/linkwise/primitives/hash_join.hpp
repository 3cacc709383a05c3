// Building blocks of a partitioned hash join on the GPUs: radix passes partition both sides by bits of the hashes,
// then matching parts are joined with hash tables in a thread block's shared memory.
//
// The structure is the usual one of hardware-conscious joins (Balkesen et al., ICDE 2013, the CPU baseline of join25
// §4.1.4): each pass makes so few parts that a tile's runs are long enough to be stored efficiently; all passes
// together make enough parts that a part of the build side fits into a hash table.
#pragma once

#include "linkwise/primitives/hash_join_steps.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Rows of one side: its input, or the output of a pass.
struct HashSide {
  KeyType key_type = KeyType::u64;  ///< of 4 or 8 bytes; integers are compared by their bits
  MemoryView keys;
  MemoryView values;  ///< empty: the row numbers, starting at `first_row`
  IntegerType value_type;
  std::uint64_t first_row = 0;
  bool are_hashes = false;
  MemoryView begin;  ///< start of each part, and end of the last, 8 bytes each; empty: all rows are one part

  [[nodiscard]] KeyWidth width() const { return key_width(key_type); }
  [[nodiscard]] std::uint64_t rows() const { return keys.bytes / static_cast<std::uint64_t>(width()); }
  /// Some rows of a side that is not in parts.
  [[nodiscard]] HashSide slice(std::uint64_t first, std::uint64_t count) const;
};

struct HashPass {
  HashSide from;
  ValueWidth value = ValueWidth::none;  ///< of the output
  MemoryView run_begin, run_end;        ///< 8 bytes for each run; empty: one run of all rows
  std::uint32_t buckets = 1;
  std::uint64_t rows = 0;  ///< of all runs
  int shift = 0, bits = 0;

  [[nodiscard]] std::uint64_t parts() const { return std::uint64_t{buckets} << bits; }
  [[nodiscard]] std::uint32_t runs() const {
    return run_begin.bytes == 0 ? 1 : static_cast<std::uint32_t>(run_begin.bytes / 8);
  }
};

std::uint64_t hash_pass_scratch_bytes(const Kernels& kernels, const HashPass& pass);
/// counts: 8 bytes for each part.
void count_digits(Runtime& runtime, Stream stream, const HashPass& pass, const MemoryView& scratch,
                  const MemoryView& counts);
/// Call after `count_digits`. `begin`: the prefix sums of the counts; `to` has room for all rows, which are stored
/// part by part. `checksum`: 8 bytes for Σ record_hash, or empty.
void move_to_parts(Runtime& runtime, Stream stream, const HashPass& pass, const MemoryView& begin, const Records& to,
                   const MemoryView& scratch, const MemoryView& checksum);

/// Samples of both sides, as taken by `sample`: codes of keys of the same type.
struct SampledSides {
  KeyType key_type = KeyType::u64;
  MemoryView build, probe;

  [[nodiscard]] std::uint64_t scratch_bytes() const;
};
/// `seen`: a SeenKeys.
void compare_samples(Runtime& runtime, Stream stream, const SampledSides& samples, const MemoryView& scratch,
                     const MemoryView& seen);

/// A join of two sides that are partitioned into the same number of parts.
struct HashMatch {
  HashSide probe, build;
  std::uint32_t parts = 1, table_rows = 0;
  Emission emission = Emission::pairs;
  MemoryView met;    ///< a byte for each build row: whether it matched; set by counting; empty: not wanted
  MemoryView tasks;  ///< most_tasks() × HashTask, followed by their actual number
  ValueWidth probe_moved = ValueWidth::none, build_moved = ValueWidth::none;  ///< values that were moved with the rows
  MemoryView checksums;  ///< 16 bytes: Σ record_hash of the rows that a step read, of each side; empty: not wanted
  std::uint32_t first_part =
      0;  ///< part 0's number among the parts of all GPUs, which are numbered by the upper `part_bits` bits of hashes
  int part_bits = 0;

  /// Longer tasks where parts are few and long, so that their hash tables are built less often.
  [[nodiscard]] std::uint32_t task_rows() const {
    constexpr std::uint64_t many_tasks = 4096;
    const bool may_be_longer = emission == Emission::pairs && probe.rows() / usual_task_rows > parts + many_tasks;
    return may_be_longer ? most_task_rows : usual_task_rows;
  }
  [[nodiscard]] std::uint64_t most_tasks() const { return parts + probe.rows() / task_rows(); }
  [[nodiscard]] std::uint64_t task_bytes() const { return sizeof(HashTask) * (most_tasks() + 1); }
};

/// Makes the list of tasks; call before counting.
void list_hash_tasks(Runtime& runtime, Stream stream, const HashMatch& match);
/// Sets *totals (matched_rows only if the emission needs it), and `emitted`: 8 bytes for each task.
void count_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, bool adds_values,
                        const MemoryView& totals, const MemoryView& emitted);

/// A column of the result with 4- or 8-byte numbers, all bits set where there is no row; empty: not wanted.
struct HashColumn {
  MemoryView to;
  int bytes = 4;
};
/// `offsets`: the prefix sums of `emitted`.
void write_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, const MemoryView& offsets,
                        const HashColumn& of_probe, const HashColumn& of_build);
/// Writes the build rows that have matched (or have not) to the result, starting at row `first`. `met`: a byte for each
/// build row; `taken`: 8 bytes for their number. Without columns, they are only counted.
void take_hash_rest(Runtime& runtime, Stream stream, const HashSide& build, const MemoryView& met, bool wants_met,
                    std::uint64_t first, const HashColumn& of_probe, const HashColumn& of_build,
                    const MemoryView& taken);

}  // namespace linkwise
