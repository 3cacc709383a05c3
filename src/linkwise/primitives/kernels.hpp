// The array operations of one device: the interface that primitives/cuda and primitives/virtual implement.
//
// Plain functions over raw pointers; callers use the functions of primitives.hpp and its siblings, which check the
// arguments. The CUDA functions enqueue on `stream` and return; the virtual ones run immediately. Sizes count records
// unless a name says otherwise.
#pragma once

#include <cstdint>
#include <memory>

#include "linkwise/primitives/hash_join_steps.hpp"
#include "linkwise/primitives/join_table_steps.hpp"
#include "linkwise/primitives/leading_digits_steps.hpp"
#include "linkwise/primitives/string_steps.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

class Machine;
class Runtime;

struct RawRecords {
  void* keys = nullptr;
  void* values = nullptr;  ///< null where the value width is 0
};

/// A sorted sequence that lies in pieces on several devices.
constexpr int max_segments = 32;
struct RawSegments {
  int count = 0;
  const void* keys[max_segments] = {};
  std::uint64_t length[max_segments] = {};
};

/// Where the parts of a partition go: destination d's records from this source begin at `records[d]`,
/// which may be on any device that this one can write to.
struct RawDestinations {
  RawRecords records[max_destinations] = {};
};

/// primitives/leading_digits.hpp says what each field is.
struct RawLeadingDigits {
  KeyCoding coding;
  RecordType type;
  RawRecords source;
  std::uint64_t count = 0;
  void* digits = nullptr;
  void* scratch = nullptr;
};

/// primitives/matching.hpp says what each field is.
struct RawProbe {
  KeyWidth width = KeyWidth::k32;
  const void* keys = nullptr;
  std::uint64_t count = 0;
  const void* values = nullptr;
  IntegerType value_type;
  const void* build_keys = nullptr;
  std::uint64_t build_count = 0;
  const std::uint64_t* build_sums = nullptr;
  Emission emission = Emission::pairs;
  std::uint32_t* first = nullptr;
  std::uint32_t* emitted = nullptr;
  bool keys_rise = true;
};
struct RawHashProbe {
  KeyWidth width = KeyWidth::k32;
  int bits = 1;
  const void* keys = nullptr;
  std::uint64_t count = 0;
  const void* values = nullptr;
  IntegerType value_type;
  const void* build_keys = nullptr;
  std::uint64_t build_count = 0;
  const void* build_values = nullptr;
  IntegerType build_value_type;
};
struct RawRangeSearch {
  KeyWidth width = KeyWidth::k32;
  bool each_key = false;
  const void* leading = nullptr;  ///< the side that is cut into tiles
  std::uint64_t leading_count = 0;
  const void* other = nullptr;
  std::uint64_t other_count = 0;
  bool left_leads = false;
  KeyRange* ranges = nullptr;
  RangeTile* tiles = nullptr;
};
struct RawEmitting {
  const std::uint32_t* first = nullptr;
  const std::uint64_t* offsets = nullptr;  ///< null where the side emits nothing
  std::uint64_t count = 0;
};
/// Rows [begin, begin + count) of a result, as positions on both sides.
struct RawWindow {
  std::uint64_t begin = 0, count = 0;
  std::uint32_t* left = nullptr;
  std::uint32_t* right = nullptr;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Loads all kernels on every device, so that no later launch waits for a module to load.
  virtual void load() const = 0;

  [[nodiscard]] virtual std::uint64_t sort_scratch_bytes(RecordType type, std::uint64_t count) const = 0;
  /// Whether `sort` leaves its result in the secondary records.
  [[nodiscard]] virtual bool sort_lands_in_secondary(RecordType type, std::uint64_t count, BitRange bits) const = 0;
  /// Stable, by the given bits; overwrites the records that do not receive the result.
  virtual void sort(void* stream, RecordType type, RawRecords primary, RawRecords secondary, std::uint64_t count,
                    BitRange bits, void* scratch, std::uint64_t scratch_bytes) const = 0;

  /// Scratch of the MSD radix sort; 0 for records that it does not support.
  [[nodiscard]] virtual std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) const = 0;
  /// The fewest records of this type for which sampling the keys for `msd_sort` pays off.
  [[nodiscard]] virtual std::uint64_t fewest_for_msd_sort(RecordType type) const = 0;
  /// Prepares `msd_sort` of the same native keys, buffers and scratch; `expected`: as in that.
  virtual void look_at_keys(void* stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                            SortBuffers buffers, ExpectedKeys expected, void* scratch, KeySpread* spread) const = 0;
  /// Sorts records with native keys from `input` into `result`, in the order of their codes. Stable. `room` is a spare
  /// buffer. The input stays unchanged unless it is also the result or the room. *checksum = Σ record_hash over the
  /// input's records with native keys, unless null.
  virtual void msd_sort(void* stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result,
                        RawRecords room, std::uint64_t count, ExpectedKeys expected, void* scratch,
                        std::uint64_t* checksum) const = 0;

  // The same with a first level that several devices share: primitives/leading_digits.hpp.
  [[nodiscard]] virtual std::uint64_t leading_digits_bytes() const = 0;
  /// For a source or part with up to `count` records; 0 where the sort is not supported.
  [[nodiscard]] virtual std::uint64_t leading_digits_scratch_bytes(RecordType type, std::uint64_t count) const = 0;
  virtual void look_at_all_keys(void* stream, const RawLeadingDigits& level, const RawSegments& samples,
                                std::uint64_t total, KeySpread* spread) const = 0;
  virtual void count_leading_digits(void* stream, const RawLeadingDigits& level, LeadingDigitCounts* counts) const = 0;
  virtual void store_leading_digits(void* stream, const RawLeadingDigits& level, const DigitPlaces& places,
                                    const RawDestinations& parts, std::uint64_t* checksum) const = 0;
  virtual void sort_received_digits(void* stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                                    RawRecords part, RawRecords room, std::uint64_t count) const = 0;

  [[nodiscard]] virtual std::uint64_t merge_scratch_bytes(RecordType type, std::uint64_t left,
                                                          std::uint64_t right) const = 0;
  /// Stable: of equal keys, those of `left` come first.
  virtual void merge(void* stream, RecordType type, RawRecords left, std::uint64_t left_count, RawRecords right,
                     std::uint64_t right_count, RawRecords to, void* scratch, std::uint64_t scratch_bytes) const = 0;

  /// Columns of integers: primitives/packing.hpp. `range`: a CodeRange.
  virtual void find_range(void* stream, IntegerType type, const void* column, std::uint64_t count,
                          void* range) const = 0;
  virtual void pack(void* stream, const Packing& packing, const void* column, KeyWidth key_width, void* keys,
                    std::uint64_t count) const = 0;

  /// Native bytes ↔ codes; in place where the native width is the code's.
  virtual void encode(void* stream, KeyType type, bool descending, const void* from, void* to,
                      std::uint64_t count) const = 0;
  virtual void decode(void* stream, KeyType type, bool descending, const void* from, void* to,
                      std::uint64_t count) const = 0;
  /// first, first + 1, … as 4- or 8-byte values; in 16-byte values the upper half is 0.
  virtual void iota(void* stream, ValueWidth width, void* to, std::uint64_t first, std::uint64_t count) const = 0;
  /// marks[i] = 1 where element i, of 1, 2, 4 or 8 bytes, differs from that before, which for the first one is
  /// *before; null: the first one is left out. Other marks are kept.
  virtual void mark_changes(void* stream, int element_bytes, const void* elements, const void* before,
                            std::uint32_t* marks, std::uint64_t count) const = 0;
  /// to[sums[i]] = first + i where marks[i] is not 0; sums[i] is how many are marked before.
  virtual void list_marked(void* stream, const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first,
                           std::uint64_t* to, std::uint64_t count) const = 0;
  /// marks[i] = 1 where word i of a string in order (pieces.hpp) is one beside it as well, and the string goes on;
  /// otherwise 0. changes[i]: whether the word differs from the one before; *next: of the word that follows the last
  /// one, null if none does.
  virtual void mark_ties(void* stream, const std::uint64_t* words, const std::uint32_t* changes,
                         const std::uint32_t* next, std::uint32_t* marks, std::uint64_t count) const = 0;
  /// to[i] = ranks[i] * 2^32.
  virtual void widen_ranks(void* stream, const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count) const = 0;
  /// ranks[positions[i] - first] += finer[i].
  virtual void refine_ranks(void* stream, const std::uint64_t* positions, std::uint64_t first,
                            const std::uint32_t* finer, std::uint64_t* ranks, std::uint64_t count) const = 0;
  /// Sets every byte.
  virtual void set_bytes(void* stream, void* to, std::uint8_t byte, std::uint64_t bytes) const = 0;
  /// The code of one key of each of `samples` equal strata, and its tag: tag_base + position. The keys may lie in
  /// page-locked host memory.
  virtual void sample(void* stream, KeyType type, bool descending, const void* keys, std::uint64_t count,
                      std::uint64_t samples, std::uint64_t seed, std::uint64_t tag_base, void* codes,
                      std::uint64_t* tags) const = 0;
  /// to[i] = from[indices[i]], elements of 1, 2, 4, 8 or 16 bytes, indices of 4 or 8 bytes; where the index has all
  /// bits set, the element has them too.
  virtual void gather(void* stream, int element_bytes, int index_bytes, const RawPieces& from, const void* indices,
                      void* to, std::uint64_t count) const = 0;
  /// to[i] = first[i], or second[i] + offset where first[i] has all bits set; all bits where both have.
  virtual void coalesce_rows(void* stream, int index_bytes, const void* first, const void* second, std::uint64_t offset,
                             void* to, std::uint64_t count) const = 0;
  /// The same for bits, in 32-bit words; all are set if `bits` is null. Where the index has all bits set, the bit is
  /// cleared. Unused bits of the last word are 0.
  virtual void pack_rows(void* stream, const RawFields& from, int record_bytes, void* records,
                         std::uint64_t rows) const = 0;
  virtual void gather_packed(void* stream, int index_bytes, const RawPieces& from, int record_bytes,
                             const void* indices, const RawFields& to, std::uint64_t count) const = 0;
  virtual void gather_bits(void* stream, int index_bytes, const std::uint32_t* bits, const void* indices,
                           std::uint32_t* to, std::uint64_t count) const = 0;
  // Strings: primitives/gathering.hpp and strings.hpp.
  virtual void shift_offsets(void* stream, int from_bytes, const void* from, int to_bytes, void* to,
                             std::uint64_t count, std::uint64_t delta) const = 0;
  virtual void gather_lengths(void* stream, int index_bytes, const RawStrings& from, const void* indices,
                              std::uint64_t* lengths, std::uint64_t count) const = 0;
  virtual void gather_strings(void* stream, int index_bytes, const RawStrings& from, const void* indices,
                              const std::uint64_t* sums, void* to, std::uint64_t count) const = 0;
  /// Each word of row i has all bits set where nulls[i] is not 0; `nulls` may be null.
  virtual void string_words(void* stream, const RawStrings& from, const std::uint8_t* nulls, const RawStringWords& to,
                            std::uint64_t count) const = 0;
  /// lengths[i]: how many bytes string i begins with as the first of `other` does, all of it where nulls[i] is not 0.
  virtual void shared_lengths(void* stream, const RawStrings& from, const std::uint8_t* nulls, const RawStrings& other,
                              std::uint64_t* lengths, std::uint64_t count) const = 0;
  /// hashes[i] = string_hash_with(hashes[i], string i).
  virtual void mix_strings_into_hashes(void* stream, const RawStrings& from, std::uint64_t* hashes,
                                       std::uint64_t count) const = 0;
  /// Adds to *unequal how many of the pairs of rows have different strings. A pair with a row number that stands for no
  /// row does not.
  virtual void count_unequal_strings(void* stream, int index_bytes, const RawStrings& left, const void* left_rows,
                                     const RawStrings& right, const void* right_rows, std::uint64_t count,
                                     std::uint64_t* unequal) const = 0;
  /// marks[groups[i]] = 1 where string i, other than the first one, is in the group of the one before and differs from
  /// it. Other marks are kept.
  virtual void mark_unequal_strings(void* stream, const RawStrings& from, const std::uint32_t* groups,
                                    std::uint32_t* marks, std::uint64_t count) const = 0;
  /// to[i] = `bytes.set` where bit `first` + i is set, otherwise `bytes.clear`.
  virtual void expand_bits(void* stream, const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes,
                           std::uint8_t* to, std::uint64_t count) const = 0;
  /// Bit i is set where bytes[i] is `set`; the unused bits of the last word are 0. Adds how many are set to *num_set.
  virtual void pack_bits(void* stream, const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits,
                         std::uint64_t count, std::uint64_t* num_set) const = 0;
  /// hashes[i] = row_hash_with(hashes[i], elements[i]).
  virtual void mix_into_hashes(void* stream, KeyWidth width, const void* elements, std::uint64_t* hashes,
                               std::uint64_t count) const = 0;
  /// Adds to *unequal how many of the pairs of rows differ in their elements. A pair with a row number that stands for
  /// no row does not.
  virtual void count_unequal(void* stream, KeyWidth width, int index_bytes, const RawPieces& left,
                             const void* left_rows, const RawPieces& right, const void* right_rows, std::uint64_t count,
                             std::uint64_t* unequal) const = 0;
  /// Sets all bits of elements of 1, 2, 4 or 8 bytes where nulls[i] is not 0.
  virtual void fill_nulls(void* stream, int element_bytes, const std::uint8_t* nulls, void* elements,
                          std::uint64_t count) const = 0;
  /// counts[d] = number of keys whose bits are d; 2^(end - begin) counters of 64 bits for each prefix, at most 2^16
  /// in total.
  virtual void histogram(void* stream, KeyWidth width, const void* keys, std::uint64_t count, BitRange bits,
                         const Prefixes& prefixes, std::uint64_t* counts) const = 0;

  [[nodiscard]] virtual std::uint64_t partition_scratch_bytes(RecordType type, std::uint64_t count,
                                                              int destinations) const = 0;
  /// totals[d] = records that go to destination d; leaves in the scratch what `partition` needs.
  virtual void partition_count(void* stream, RecordType type, const void* keys, std::uint64_t count,
                               const Splitters& splitters, void* scratch, std::uint64_t scratch_bytes,
                               std::uint64_t* totals) const = 0;
  /// Stable; after `partition_count` on the same records, splitters and scratch.
  virtual void partition(void* stream, RecordType type, RawRecords from, std::uint64_t count,
                         const Splitters& splitters, const void* scratch, const RawDestinations& to) const = 0;

  /// *sum = Σ record_hash over the records: equal for equal multisets.
  virtual void checksum(void* stream, RecordType type, RawRecords records, std::uint64_t count,
                        std::uint64_t* sum) const = 0;
  /// Checks records that should be sorted, in a single read. Keys are native and ordered by their codes; *numbers
  /// gets the first and the last code.
  virtual void check_part(void* stream, RecordType type, KeyCoding coding, RawRecords records, std::uint64_t count,
                          PartNumbers* numbers) const = 0;
  /// *violations = number of keys that are less than the key before them.
  virtual void check_order(void* stream, KeyWidth width, const void* keys, std::uint64_t count,
                           std::uint64_t* violations) const = 0;
  /// The leftmost pivot (sort22 §5.2, algorithm 1; here for halves of any size): the least p such that the
  /// first |left| - p keys of left and the first p of right are ≤ all others.
  virtual void select_pivot(void* stream, KeyWidth width, const RawSegments& left, const RawSegments& right,
                            std::uint64_t* pivot) const = 0;

  // What join/ needs: primitives/matching.hpp.
  [[nodiscard]] virtual std::uint64_t probe_scratch_bytes(std::uint64_t probing_rows) const = 0;
  virtual void probe(void* stream, const RawProbe& probe, void* scratch, MatchTotals* totals) const = 0;
  [[nodiscard]] virtual std::uint64_t find_ranges_scratch_bytes(std::uint64_t leading_rows) const = 0;
  virtual void find_ranges(void* stream, const RawRangeSearch& search, void* scratch, RangeTotals* totals) const = 0;
  virtual void unify_floats(void* stream, KeyType type, void* codes, std::uint64_t count) const = 0;
  virtual void hash_keys(void* stream, KeyWidth width, const void* from, void* to, std::uint64_t count) const = 0;
  virtual void hash_probe(void* stream, const RawHashProbe& probe, MatchTotals* totals) const = 0;
  // Partitioned hash joins: primitives/hash_join.hpp.
  /// Shared memory that a thread block can have on every device.
  [[nodiscard]] virtual std::uint64_t block_memory_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t hash_pass_scratch_bytes(std::uint32_t runs, std::uint64_t parts) const = 0;
  /// Clears the tables first.
  virtual void compare_samples(void* stream, const RawSamples& samples, SeenKeys* seen) const = 0;
  /// counts[p] = rows that go to part p.
  virtual void count_digits(void* stream, const RawHashPass& pass, void* scratch, std::uint64_t* counts) const = 0;
  /// `begin`: where each part begins. *checksum = Σ record_hash, unless null.
  virtual void move_to_parts(void* stream, const RawHashPass& pass, const std::uint64_t* begin, RawRecords to,
                             void* scratch, std::uint64_t* checksum) const = 0;
  virtual void list_hash_tasks(void* stream, const RawHashTasks& list) const = 0;
  virtual void count_hash_matches(void* stream, const RawHashMatch& match, const RawHashCount& count) const = 0;
  virtual void write_hash_matches(void* stream, const RawHashMatch& match, const RawHashRows& rows) const = 0;
  virtual void take_hash_rest(void* stream, const RawHashRest& rest) const = 0;
  // Unpartitioned joins: primitives/join_table.hpp.
  /// Bytes of the cache that all blocks of a device share; the least of all devices.
  [[nodiscard]] virtual std::uint64_t cache_bytes() const = 0;
  virtual void fill_join_table(void* stream, const RawJoinTable& table) const = 0;
  virtual void check_join_table(void* stream, const RawJoinTable& table) const = 0;
  virtual void count_table_matches(void* stream, const RawTableProbe& probe, MatchTotals* totals) const = 0;
  virtual void write_table_matches(void* stream, const RawTableProbe& probe, const RawTableRows& rows) const = 0;
  [[nodiscard]] virtual std::uint64_t running_sums_scratch_bytes(std::uint64_t count) const = 0;
  virtual void running_sums(void* stream, IntegerType type, const void* values, std::uint64_t count,
                            std::uint64_t* sums, void* scratch, std::uint64_t scratch_bytes) const = 0;
  virtual void expand(void* stream, const RawEmitting& left, const RawEmitting& right,
                      const RawWindow& window) const = 0;
  virtual void expand_unmatched(void* stream, const RawEmitting& left, const RawEmitting& right,
                                const RawWindow& window) const = 0;
};

std::unique_ptr<Kernels> make_virtual_kernels();
std::unique_ptr<Kernels> make_cuda_kernels();
/// The GPUs of this machine, with their kernels loaded. @throws as make_cuda_runtime.
std::unique_ptr<Runtime> open_gpus(Machine machine);

}  // namespace linkwise
