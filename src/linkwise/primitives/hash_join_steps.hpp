// The steps of a partitioned hash join on one device, as raw pointers, for host and device alike:
// primitives/hash_join.hpp enqueues them.
#pragma once

#include <cstdint>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/integers.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// Rows of a side. Their keys are hashed one-to-one, so that hashes stand for them.
struct RawHashSide {
  const void* keys = nullptr;
  const void* values = nullptr;  ///< null: the numbers of the rows, from `first_row` on
  IntegerType value_type;
  std::uint64_t count = 0, first_row = 0;
  bool are_hashes = false;               ///< keys, that have been hashed already …
  bool are_floats = false;               ///< … or not, and are compared as joins compare floats
  const std::uint64_t* begin = nullptr;  ///< of each part, and the end of the last; null: all rows are one part

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

/// What checksums of moved rows add up: as `record_hash`, with fewer steps where hash and value fit one word. Of hashes
/// of 32 bits alone it is the square: one flipped bit always changes the sum, but two may make up for each other, and a
/// row whose hash is 0 adds nothing.
template <typename Key, typename Value>
LINKWISE_BOTH std::uint64_t hash_of_moved(Key hash, const Value& value) {
  if constexpr (sizeof(Key) == 4 && std::is_same_v<Value, NoValue>) return std::uint64_t{hash} * hash;
  else if constexpr (sizeof(Key) == 4 && sizeof(Value) == 4) return mix64(std::uint64_t{hash} << 32 | value);
  else return record_hash(hash, value);
}
/// The same of a value whose width is known at run time.
template <typename Key>
LINKWISE_BOTH std::uint64_t hash_of_moved(Key hash, std::uint64_t value, ValueWidth width) {
  if (width == ValueWidth::none) return hash_of_moved(hash, NoValue{});
  if (width == ValueWidth::v4) return hash_of_moved(hash, static_cast<std::uint32_t>(value));
  return hash_of_moved(hash, value);
}

/// Rows in runs: run r holds [begin[r], end[r]), and is a piece of bucket r % buckets, whose pieces come from several
/// devices and go on together.
struct RawRuns {
  const std::uint64_t *begin = nullptr, *end = nullptr;  ///< null: one run of all rows
  std::uint32_t count = 1, buckets = 1;
};

/// One pass of radix partitioning by hashes: a row of bucket b goes to part b << bits | digit, the digit being the
/// `bits` bits of its hash from `shift` on.
struct RawHashPass {
  RecordType type;  ///< of what comes out
  RawHashSide from;
  RawRuns runs;
  std::uint64_t rows = 0;  ///< of all runs
  int shift = 0, bits = 0;
};
constexpr int most_pass_bits = 9;

/// A chunk of a part of the probing side, which meets the same part of the build side.
struct HashTask {
  std::uint32_t part = 0, chunk = 0;
};
/// Rows of a part that a task takes; and at most, where only pairs are emitted: with the rows of one table they are
/// fewer than 2^32 pairs.
constexpr std::uint32_t usual_task_rows = 1 << 16, most_task_rows = 1 << 18;

struct RawHashTasks {
  RawHashSide probe, build;
  std::uint32_t parts = 0, task_rows = usual_task_rows;
  bool without_build = false;  ///< probing rows count that meet nobody
  bool without_probe = false;  ///< and rows of the build side are looked at that nobody comes to
  HashTask* tasks = nullptr;
  std::uint32_t* count = nullptr;
};

/// Both sides' parts against each other.
struct RawHashMatch {
  KeyWidth width = KeyWidth::k32;
  RawHashSide probe, build;
  const HashTask* tasks = nullptr;
  const std::uint32_t* task_count = nullptr;
  std::uint64_t most_tasks = 0;
  std::uint32_t table_rows = 0;  ///< of the build side that are in a table at once
  std::uint32_t task_rows = usual_task_rows;
  Emission emission = Emission::pairs;
  std::uint8_t* met =
      nullptr;  ///< for each row of the build side, whether it matched; set by counting; null: not wanted
  ValueWidth probe_moved = ValueWidth::none, build_moved = ValueWidth::none;  ///< values that are summed up in …
  std::uint64_t* checksums = nullptr;  ///< … Σ hash_of_moved of both sides; null: not wanted
};

struct RawHashCount {
  MatchTotals* totals = nullptr;
  std::uint64_t* emitted = nullptr;  ///< rows of the result of each task
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

/// Rows of the build side that met somebody, or that met nobody.
struct RawHashRest {
  RawHashSide build;
  const std::uint8_t* met = nullptr;
  bool wants_met = false;
  std::uint64_t first = 0;  ///< row of the result at which they begin
  RawHashColumn to_probe, to_build;
  std::uint64_t* taken = nullptr;  ///< how many there are
};

/// Rows of the result that come of a task's probing rows.
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
