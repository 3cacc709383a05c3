// What a partitioned hash join of relations on the GPUs is made of: radix passes that bring rows of like hashes
// together, and parts of both sides against each other in tables that fit the memory of a thread block.
//
// The structure is the usual one of hardware-conscious joins (Balkesen et al., ICDE 2013, which join25 §4.1.4 compares
// with on the CPU): no more parts a pass than runs of a tile are long enough to be stored well, and as many in all as
// make a part of the build side fit.
#pragma once

#include "linkwise/primitives/hash_join_steps.hpp"
#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Rows of a side, as they came or as a pass left them.
struct HashSide {
  KeyType key_type = KeyType::u64;  ///< of 4 or 8 bytes; integers are compared by their bits
  MemoryView keys;
  MemoryView values;  ///< empty: the numbers of the rows, from `first_row` on
  IntegerType value_type;
  std::uint64_t first_row = 0;
  bool are_hashes = false;
  MemoryView begin;  ///< of each part, and the end of the last, 8 bytes each; empty: all rows are one part

  [[nodiscard]] KeyWidth width() const { return key_width(key_type); }
  [[nodiscard]] std::uint64_t rows() const { return keys.bytes / static_cast<std::uint64_t>(width()); }
};

struct HashPass {
  HashSide from;
  ValueWidth value = ValueWidth::none;  ///< of what comes out
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
/// After that. `begin`: the running sums of the counts; `to` has room for all rows, in the order of the parts.
/// `checksum`: 8 bytes for Σ hash_of_moved, or none.
void move_to_parts(Runtime& runtime, Stream stream, const HashPass& pass, const MemoryView& begin, const Records& to,
                   const MemoryView& scratch, const MemoryView& checksum);

/// Samples of both sides as `sample` takes them: codes of keys of one type.
struct SampledSides {
  KeyType key_type = KeyType::u64;
  MemoryView build, probe;

  [[nodiscard]] std::uint64_t scratch_bytes() const;
};
/// `seen`: a SeenKeys.
void compare_samples(Runtime& runtime, Stream stream, const SampledSides& samples, const MemoryView& scratch,
                     const MemoryView& seen);

/// Two sides in as many parts, and how they meet.
struct HashMatch {
  HashSide probe, build;
  std::uint32_t parts = 1, table_rows = 0;
  Emission emission = Emission::pairs;
  MemoryView met;    ///< a byte for each row of the build side, set by counting; empty: not wanted
  MemoryView tasks;  ///< most_tasks() × HashTask, and behind them how many there are
  ValueWidth probe_moved = ValueWidth::none, build_moved = ValueWidth::none;  ///< values that were moved with the rows
  MemoryView checksums;  ///< 16 bytes for Σ hash_of_moved of what a step saw of both sides; empty: not wanted
  std::uint32_t first_part =
      0;  ///< the parts' numbers among those of all GPUs are the upper `part_bits` bits of hashes
  int part_bits = 0;

  /// Longer tasks where few parts are long, so that their tables are made less often.
  [[nodiscard]] std::uint32_t task_rows() const {
    constexpr std::uint64_t many_tasks = 4096;
    const bool may_be_longer = emission == Emission::pairs && probe.rows() / usual_task_rows > parts + many_tasks;
    return may_be_longer ? most_task_rows : usual_task_rows;
  }
  [[nodiscard]] std::uint64_t most_tasks() const { return parts + probe.rows() / task_rows(); }
  [[nodiscard]] std::uint64_t task_bytes() const { return sizeof(HashTask) * (most_tasks() + 1); }
};

/// What there is to do; before counting.
void list_hash_tasks(Runtime& runtime, Stream stream, const HashMatch& match);
/// Sets *totals (of matched_rows only where the emission asks for them), and `emitted`: 8 bytes for each task.
void count_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, bool adds_values,
                        const MemoryView& totals, const MemoryView& emitted);

/// A column of the result with numbers of 4 or 8 bytes, all bits set where there is no row; empty: not wanted.
struct HashColumn {
  MemoryView to;
  int bytes = 4;
};
/// `offsets`: the running sums of `emitted`.
void write_hash_matches(Runtime& runtime, Stream stream, const HashMatch& match, const MemoryView& offsets,
                        const HashColumn& of_probe, const HashColumn& of_build);
/// The rows of the build side that met somebody (or nobody), from row `first` of the result on. `taken`: 8 bytes for
/// how many there are. Without columns they are counted.
void take_hash_rest(Runtime& runtime, Stream stream, const HashMatch& match, bool wants_met, std::uint64_t first,
                    const HashColumn& of_probe, const HashColumn& of_build, const MemoryView& taken);

}  // namespace linkwise
