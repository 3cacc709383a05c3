// Arguments of the steps of a partitioned hash join on one device, as raw pointers, for host and device alike;
// primitives/hash_join.hpp enqueues the steps.
#pragma once

#include <cstdint>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/integers.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// Rows of one side. Keys are hashed bijectively, so comparing hashes replaces comparing keys.
struct RawHashSide {
  const void* keys = nullptr;
  const void* values = nullptr;  ///< null: the row numbers, starting at `first_row`
  IntegerType value_type;
  std::uint64_t count = 0, first_row = 0;
  bool are_hashes = false;               ///< the keys have been hashed already …
  bool are_floats = false;               ///< … or not, and are floats, to be compared as `unified_float`
  const std::uint64_t* begin = nullptr;  ///< start of each part, and end of the last; null: all rows are one part

  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH Key hash(Key key) const {
    if (are_hashes) return key;
    if (are_floats) key = unified_float<Key>(encode_bits(key, KeyClass::floating, /*descending=*/false));
    return hash_of(key);
  }
  [[nodiscard]] LINKWISE_BOTH std::uint64_t value(std::uint64_t row) const {
    return values == nullptr ? first_row + row : integer_at(values, value_type, row);
  }
  [[nodiscard]] LINKWISE_BOTH std::uint64_t begin_of(std::uint64_t part) const {
    if (begin == nullptr) return part == 0 ? 0 : count;
    return begin[part];
  }
};

constexpr std::uint64_t of_a_misplaced_row = 0xd6e8feb86659fd93;  // odd

/// `record_hash` of a moved row, whose value's width is known only at run time.
template <typename Key>
LINKWISE_BOTH std::uint64_t hash_of_moved(Key hash, std::uint64_t value, ValueWidth width) {
  if (width == ValueWidth::none) return record_hash(hash, NoValue{});
  if (width == ValueWidth::v4) return record_hash(hash, static_cast<std::uint32_t>(value));
  return record_hash(hash, value);
}

/// Rows in runs: run r holds [begin[r], end[r]) and belongs to bucket r % buckets. A bucket's runs come from several
/// devices and are partitioned together.
struct RawRuns {
  const std::uint64_t *begin = nullptr, *end = nullptr;  ///< null: one run of all rows
  std::uint32_t count = 1, buckets = 1;
};

/// One pass of radix partitioning by hashes: a row of bucket b goes to part b << bits | digit, the digit being the
/// `bits` bits of its hash from `shift` on.
struct RawHashPass {
  RecordType type;  ///< of the output
  RawHashSide from;
  RawRuns runs;
  std::uint64_t rows = 0;  ///< of all runs
  int shift = 0, bits = 0;
};
constexpr int most_pass_bits = 9;
/// Shared memory that a block needs for a pass, and roughly for a hash table.
constexpr std::uint64_t least_hash_block_bytes = 112 << 10;

/// A chunk of a part of the probe side, which is joined with the same part of the build side.
struct HashTask {
  std::uint32_t part = 0, chunk = 0;
};
/// Probe rows of a task: usually, and at most, where only pairs are emitted. With the rows of one hash table, they
/// make fewer than 2^32 pairs.
constexpr std::uint32_t usual_task_rows = 1 << 16, most_task_rows = 1 << 18;

struct RawHashTasks {
  RawHashSide probe, build;
  std::uint32_t parts = 0, task_rows = usual_task_rows;
  bool without_build = false;  ///< tasks without build rows are listed: unmatched probe rows count
  bool without_probe = false;  ///< tasks without probe rows are listed: all build rows must be read
  HashTask* tasks = nullptr;
  std::uint32_t* count = nullptr;
};

/// The join of both sides, part by part.
struct RawHashMatch {
  KeyWidth width = KeyWidth::k32;
  RawHashSide probe, build;
  const HashTask* tasks = nullptr;
  const std::uint32_t* task_count = nullptr;
  std::uint64_t most_tasks = 0;
  std::uint32_t table_rows = 0;  ///< build rows that a hash table holds at once
  std::uint32_t task_rows = usual_task_rows;
  Emission emission = Emission::pairs;
  std::uint8_t* met =
      nullptr;  ///< a byte for each row of the build side: whether it matched; set by counting; null: not wanted
  ValueWidth probe_moved = ValueWidth::none, build_moved = ValueWidth::none;  ///< values that are included in …
  std::uint64_t* checksums = nullptr;  ///< … Σ record_hash of each side; null: not wanted
  std::uint32_t first_part = 0;        ///< part 0's number among the parts of all devices, and …
  int part_bits = 0;                   ///< … how many upper bits of a hash are its part's number

  /// A row's term in a checksum, given its part. A row that a pass has put into the wrong part would find no match
  /// there: it gets a term that makes the sum wrong.
  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH std::uint64_t seen(Key hash, std::uint64_t value, ValueWidth moved,
                                                 std::uint32_t part) const {
    const bool belongs = part_bits == 0 || hash >> (8 * static_cast<int>(sizeof(Key)) - part_bits) == first_part + part;
    return hash_of_moved(hash, value, moved) + (belongs ? 0 : of_a_misplaced_row);
  }
};

/// The layout of a block's shared memory with a hash table: values, keys, heads of chains, each row's successor in
/// its chain, and whether it has matched; then, where wanted, a bit for each probe row of a task.
struct HashTableShape {
  std::uint32_t rows = 8;   ///< a multiple of 8, at most 2^16 - 8
  std::uint32_t slots = 1;  ///< a power of two
  int value_bytes = 0;      ///< 0: none are kept
  bool marks = false;

  HashTableShape() = default;
  LINKWISE_BOTH HashTableShape(std::uint32_t table_rows, int value_bytes, bool marks)
      : rows((table_rows + 7) / 8 * 8), value_bytes(value_bytes), marks(marks) {
    while (3 * slots < 2 * rows) slots *= 2;
  }
  [[nodiscard]] LINKWISE_BOTH std::uint32_t table_bytes(std::uint32_t key_bytes) const {
    return (4 * slots + rows * (key_bytes + static_cast<std::uint32_t>(value_bytes) + 2 + (marks ? 1 : 0)) + 3) / 4 * 4;
  }
};

/// The count of the most frequent key in each side's sample, the number of equal pairs across the samples, and the
/// number of the probe side's samples whose key was sampled more than once.
struct SeenKeys {
  std::uint64_t build_most = 0, probe_most = 0, pairs = 0, probe_repeated = 0;
};
/// Codes of both sides' samples, and room for a hash table of each side with `slots` slots: a power of two, and more
/// than there are samples. A slot has 48 bits of a hash and, in the low 16 bits, its count; 0 is an empty slot.
struct RawSamples {
  KeyWidth width = KeyWidth::k32;
  bool are_floats = false;
  const void *build = nullptr, *probe = nullptr;
  std::uint64_t build_count = 0, probe_count = 0;  ///< at most most_samples
  std::uint64_t *build_table = nullptr, *probe_table = nullptr;
  std::uint32_t slots = 1;

  static constexpr std::uint64_t most_samples = 0xffff;
  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH std::uint64_t tag(Key code) const {
    return mix64(are_floats ? unified_float<Key>(code) : code) & ~most_samples;
  }
  [[nodiscard]] LINKWISE_BOTH std::uint32_t first_slot(std::uint64_t tag) const {
    return static_cast<std::uint32_t>(tag >> 32) & (slots - 1);
  }
  [[nodiscard]] LINKWISE_BOTH std::uint32_t next_slot(std::uint32_t slot) const { return (slot + 1) & (slots - 1); }
  static LINKWISE_BOTH bool is_of(std::uint64_t slot, std::uint64_t tag) { return ((slot ^ tag) & ~most_samples) == 0; }
  static LINKWISE_BOTH std::uint64_t times(std::uint64_t slot) { return slot & most_samples; }
};

struct RawHashCount {
  MatchTotals* totals = nullptr;
  std::uint64_t* emitted = nullptr;  ///< result rows of each task
  bool adds_values = false;
};

/// A column of the result: the values of one side, of 4 or 8 bytes, with all bits set where it has no row.
struct RawHashColumn {
  void* to = nullptr;  ///< null: not wanted
  int bytes = 4;

  LINKWISE_BOTH void set(std::uint64_t row, std::uint64_t value) const {
    if (to == nullptr) return;
    if (bytes == 4) static_cast<std::uint32_t*>(to)[row] = static_cast<std::uint32_t>(value);
    else static_cast<std::uint64_t*>(to)[row] = value;
  }
};

struct RawHashRows {
  const std::uint64_t* offsets = nullptr;  ///< where each task's rows begin
  RawHashColumn probe, build;
};

/// The build rows that have matched, or those that have not.
struct RawHashRest {
  RawHashSide build;
  const std::uint8_t* met = nullptr;
  bool wants_met = false;
  std::uint64_t first = 0;  ///< row of the result at which they begin
  RawHashColumn to_probe, to_build;
  std::uint64_t* taken = nullptr;  ///< how many there are
};

/// The number of result rows that a task's probe rows make.
LINKWISE_BOTH constexpr std::uint64_t rows_of_task(Emission emission, std::uint64_t probing, std::uint64_t pairs,
                                                   std::uint64_t matched) {
  switch (emission) {
    case Emission::pairs: return pairs;
    case Emission::pairs_or_one: return pairs + probing - matched;
    case Emission::one_if_matched: return matched;
    case Emission::one_if_unmatched: return probing - matched;
  }
  return 0;
}

}  // namespace linkwise
