// What the kernels of the most-significant-digit radix sort share: buckets, items, and pointers to them.
//
// A *bucket* is a run of keys that is too long to be sorted in shared memory, and what is known of its keys. A level
// counts the digits of all buckets, and partitions each by them; the first level of a long sort of keys alone does not
// count, but stores in pages (pages.cuh). A part that fits into shared memory becomes an *item*
// for the last kernel; a longer one is a bucket of the next level. Blocks work on *spans*, equal pieces of a bucket,
// in order: runs that share a sector then reach the cache at about the same time, and memory sees whole sectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/leading_digits_steps.hpp"

namespace linkwise::cuda::msd {

constexpr int level_threads = 1024;
constexpr int most_digits = 1024;   // of a bucket
constexpr int usual_digits = 768;   // of a bucket of not too many keys: more make shorter runs
constexpr int stable_digits = 640;  // of a bucket of records with values: each warp counts all of them
constexpr int root_digits = 512;    // at most, of the first level; without the two for keys beyond the sample's range
constexpr int table_bits = 12;      // log2 of the number of cells of the root's table
constexpr int table_cells = 1 << table_bits;
constexpr int usual_levels = 3;  // launched as separate kernels; only unusual keys need more
constexpr std::uint32_t copied_at_once = 1 << 16;
constexpr std::uint32_t room_after_entries = 4;  // a vector
constexpr std::uint32_t most_blocks = 1024;      // of each of a level's kernels except the counting one

template <typename Value>
constexpr bool has_bytes = !std::is_same_v<Value, NoValue>;
template <typename Value>
constexpr int value_bytes = has_bytes<Value> ? sizeof(Value) : 0;

/// Records of the partition's tile, which a block orders at once: the longer its runs, the fewer cache lines are
/// written by several blocks. A record with a value takes room for itself, its digit, and its position.
template <typename Key, typename Value = NoValue>
constexpr int tile_items =  // per thread
    has_bytes<Value> ? 160 / (sizeof(Key) + value_bytes<Value> + 4) : 128 / sizeof(Key);
template <typename Key, typename Value = NoValue>
constexpr int tile_records = tile_items<Key, Value> * level_threads;

constexpr int finish_threads = 512, finish_blocks = 2;                         // blocks per multiprocessor
constexpr std::size_t finish_bytes = (228 << 10) / finish_blocks - (1 << 10);  // of shared memory, on Hopper
/// The most records of an item: what a block can sort in shared memory. A record with a value takes room for itself, a
/// word to sort, and a bin.
template <typename Key, typename Value = NoValue>
constexpr int item_records =  // per thread
    has_bytes<Value> ? 220 / (sizeof(Key) + value_bytes<Value> + 10) / 2 * 2 : 80 / sizeof(Key);
template <typename Key, typename Value = NoValue>
constexpr std::uint32_t item_capacity = item_records<Key, Value> * finish_threads;

/// How a kernel takes and stores keys: as they are; as they are, and stores them narrow; narrow; or as they are, and
/// stores them at the digits' destinations.
enum class Way : std::uint8_t { usual, to_narrow, narrow, shared };

/// 64-bit keys without values that differ by less than 2^32 are stored as 32-bit distances from the least of them by
/// the first level, and sorted on as such: narrow.cuh.
using NarrowKey = std::uint32_t;
template <typename Key, typename Value>
constexpr bool can_be_narrow = sizeof(Key) > sizeof(NarrowKey) && !has_bytes<Value>;

/// The planned average fill of parts, as a fraction of the capacity: few parts then exceed the capacity.
constexpr double planned_fill = 0.88;

/// The keys lie in three places: the caller's input, the result, and a spare buffer (room) of the same size. The
/// input may be one of the others; otherwise it is not written. Keys are native in the input and in the final result,
/// and codes elsewhere.
enum Place : std::uint32_t { in_input, in_result, in_room };
template <typename Key>
struct Columns {
  Key* keys[3];
  KeyClass key_class;
  bool descending, are_codes;  ///< are_codes: native keys are their own codes
  std::uint64_t* checksum;     ///< of the input, if it is wanted
  std::uint64_t count;

  // Selected by comparisons: an index known only at run time would force the array into memory.
  __device__ Key* keys_at(std::uint32_t place) const {
    return place == in_input ? keys[in_input] : place == in_result ? keys[in_result] : keys[in_room];
  }
  template <int count>
  __device__ __forceinline__ void encode(Key (&key)[count], std::uint32_t place) const {
    if (are_codes || place != in_input) return;
#pragma unroll
    for (int i = 0; i < count; ++i) key[i] = encode_bits(key[i], key_class, descending);
  }
  /// Whether native keys and codes differ by the bits of `code_of_zero`, as integers' do.
  [[nodiscard]] __device__ __forceinline__ bool flips_bits() const { return key_class != KeyClass::floating; }
  [[nodiscard]] __device__ __forceinline__ Key code_of_zero() const {
    return are_codes ? Key{0} : encode_bits(Key{0}, key_class, descending);
  }
  __device__ __forceinline__ Key native(Key code) const {
    return are_codes ? code : decode_bits(code, key_class, descending);
  }
  [[nodiscard]] __device__ __forceinline__ Key native_at(std::uint32_t place, Key key) const {
    return place == in_input ? key : native(key);
  }
  /// Whether keys at the place are in the result already, native.
  [[nodiscard]] __device__ __forceinline__ bool are_final(std::uint32_t place) const {
    return place == in_result && are_codes;
  }
  [[nodiscard]] __device__ __forceinline__ Key* result() const { return keys[in_result]; }
};

template <typename Key, typename Value>
struct RecordColumns : Columns<Key> {
  Value* values[3];

  __device__ Value* values_at(std::uint32_t place) const {
    return place == in_input ? values[in_input] : place == in_result ? values[in_result] : values[in_room];
  }
};
template <typename Key, typename Value>
using ColumnsOf = std::conditional_t<has_bytes<Value>, RecordColumns<Key, Value>, Columns<Key>>;

/// Where the records of a place's buckets go next.
__host__ __device__ constexpr std::uint32_t other_place(std::uint32_t place) {
  return place == in_result ? in_room : in_result;
}

/// Keys k of a bucket have low <= k <= low + reach, except in the first bucket, which is cut by the Root.
struct Bucket {
  std::uint64_t low, reach;
  std::uint64_t least, greatest;  ///< found while counting
  std::uint32_t begin, count;     ///< records
  std::uint32_t spans;
  std::uint32_t first_entry;  ///< of its digits × spans counters, ordered by digit
  std::uint32_t digits;
  std::uint32_t shift, scale;  ///< see Digits
  std::uint8_t place, next_place;
  bool is_root;
  bool is_paged;  ///< its spans are pages: pages.cuh
};
constexpr int bucket_words = sizeof(Bucket) / 4;

/// Records of a bucket that one block takes at once: a tile at most.
struct alignas(16) Span {
  std::uint32_t bucket, begin, count;
  std::uint32_t entry;  ///< index of the counter of its first digit
};

/// A span that was not partitioned in order, and the one before it in its block's list.
struct DoubtfulSpan {
  Span span;
  std::uint32_t before;
};
constexpr std::uint32_t no_span = ~0u;

/// Records that one block of the last kernel brings to their place in the result.
struct Item {
  std::uint64_t low, reach;  ///< keys k have low <= k <= low + reach
  std::uint32_t begin;
  std::uint32_t count : 24, place : 4;
  std::uint32_t is_equal : 1;  ///< all keys are equal: they are only moved; may exceed the capacity
};

/// A cell of the root's table: its first digit, and how many it has, (8 + eighths) · 2^log / 8.
class Cell {
 public:
  Cell() = default;
  __device__ Cell(std::uint32_t first, std::uint32_t log, std::uint32_t eighths)
      : bits_(static_cast<std::uint16_t>(first | log << 9 | eighths << 13)) {}

  /// A cell with at most `most` digits, in a range of 2^shift keys.
  __device__ static Cell of(std::uint32_t first, std::uint32_t most, std::uint32_t shift) {
    if (most < 2) return {first, 0, 0};
    const auto log = static_cast<std::uint32_t>(31 - __clz(static_cast<int>(most)));
    return log >= shift ? Cell{first, shift, 0} : Cell{first, log, (most << 3 >> log) - 8};
  }

  [[nodiscard]] __device__ std::uint32_t first() const { return bits_ & 511u; }
  [[nodiscard]] __device__ std::uint32_t digits() const { return times() << log() >> 3; }
  /// The digit of a key at distance `within` from the cell's lowest, of less than 2^shift.
  [[nodiscard]] __device__ std::uint32_t digit(std::uint32_t within, std::uint32_t shift) const {
    return first() + (within * times() >> (shift + 3 - log()));
  }
  /// The least distance that has the i-th digit.
  [[nodiscard]] __device__ std::uint64_t distance(std::uint32_t i, std::uint32_t shift) const {
    return ((std::uint64_t{i} << (shift + 3 - log())) + times() - 1) / times();
  }

 private:
  [[nodiscard]] __device__ std::uint32_t log() const { return bits_ >> 9 & 15u; }
  [[nodiscard]] __device__ std::uint32_t times() const { return 8 + (bits_ >> 13); }

  std::uint16_t bits_;
};
static_assert(root_digits <= 512 && table_bits >= 4);  // times() has four bits, beside the 20 of a distance

/// How the first level cuts the keys, guessed from a sample: digit 0 takes the keys below `low`, the last digit those
/// beyond the window. In between, digits are of equal width or, where the sample is uneven, given by the table: a
/// cell has one digit, which it may share with its neighbours, or many. Any guess sorts correctly; a good one sorts
/// faster.
struct Root {
  std::uint64_t low;
  std::uint64_t window;      ///< greatest distance from `low`
  std::uint32_t dropped;     ///< last bits of a distance from `low` that the table ignores, so that 32 are left, …
  std::uint32_t cell_shift;  ///< … and how many of these do not tell the cell
  std::uint32_t is_tabled;
  Cell table[table_cells];
  std::uint64_t digit_low[root_digits + 1];  ///< relative to `low`
};

static_assert(most_leading_digits == root_digits + 2);

/// Where the records of each digit of a first level go that several GPUs share: `delta` and the counter of a span's
/// digit add up, modulo 2^32, to the place in the array.
struct Destinations {
  void* keys[most_leading_digits];
  void* values[most_leading_digits];
  std::uint32_t delta[most_leading_digits];
};

struct Counters {
  std::uint32_t buckets[2], spans[2], entries[2];  // of this level and the next, which take turns
  std::uint32_t items, hard_items;
  std::uint32_t spans_taken;  // dynamically, beyond the two that each block is given
  std::uint32_t doubtful_spans;
  std::uint32_t is_narrow;  // the keys after the first level
  std::uint64_t least_key;  // what narrow keys are distances from
  std::uint32_t is_paged;   // the first level, as the sample decides
  std::uint32_t pages;      // taken by its digits
  std::uint32_t are_wide;   // keys that should have been narrow, found while they were stored in pages
};

/// The most records of a span, and of an item.
struct Fit {
  std::uint32_t tile, capacity;
};

/// Pointers to what lies in the scratch.
struct State {
  Counters* counters;
  Root* root;
  Bucket* buckets[2];
  Span* spans[2];
  std::uint32_t* entries;  // of a paged first level, the table of its pages
  std::uint32_t* range_sums;
  Item* items;
  std::uint32_t* hard_items;
  DoubtfulSpan* doubtful_spans;
  Destinations* destinations;
  std::uint32_t* paged;      ///< records that each digit of a paged first level has had
  void* scratch_pages;       ///< beyond those in the place that it stores to …
  std::uint32_t pages;       ///< … and how many these are; 0 if the first level must not be paged
  Fit usual, narrow;         ///< narrow: of narrow keys; 0 where keys must not become narrow
  std::uint32_t max_digits;  ///< of a bucket
  bool doubts_atomics;       ///< for tests: all spans are partitioned again
};

}  // namespace linkwise::cuda::msd
