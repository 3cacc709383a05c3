// The CUDA side of the primitives, one file per subject: radix_sort.cu, msd_sort.cu (with values:
// msd_sort_records32.cu and 64), merge.cu, partition.cu, elementwise.cu (encode, iota, sample and more), gather.cu,
// strings.cu, pack.cu, reduce.cu (checksum, order, histogram, pivot).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "linkwise/primitives/kernels.hpp"

namespace linkwise::cuda {

/// The addresses of all kernels of a file, so that they can be loaded before anything spins on a flag.
using KernelList = std::vector<const void*>;
KernelList elementwise_kernels();
KernelList gather_kernels();
KernelList string_kernels();
KernelList packing_kernels();
KernelList reduce_kernels();
KernelList partition_kernels();
KernelList match_kernels();
KernelList range_kernels();
KernelList hash_match_kernels();
KernelList hash_join_kernels();
KernelList join_table_kernels();
KernelList msd_sort_kernels();

std::uint64_t radix_sort_scratch_bytes(RecordType type, std::uint64_t count);
bool radix_sort_lands_in_secondary(RecordType type, std::uint64_t count, BitRange bits);
void radix_sort(cudaStream_t stream, RecordType type, RawRecords primary, RawRecords secondary, std::uint64_t count,
                BitRange bits, void* scratch, std::uint64_t scratch_bytes);

std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count);
std::uint64_t fewest_for_msd_sort(RecordType type);
void look_at_keys(cudaStream_t stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                  SortBuffers buffers, ExpectedKeys expected, void* scratch, KeySpread* spread);
void msd_sort(cudaStream_t stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result,
              RawRecords room, std::uint64_t count, ExpectedKeys expected, void* scratch, std::uint64_t* checksum);
std::uint64_t leading_digits_bytes();
std::uint64_t leading_digits_scratch_bytes(RecordType type, std::uint64_t count);
void look_at_all_keys(cudaStream_t stream, const RawLeadingDigits& level, const RawSegments& samples,
                      std::uint64_t total, KeySpread* spread);
void count_leading_digits(cudaStream_t stream, const RawLeadingDigits& level, LeadingDigitCounts* counts);
void store_leading_digits(cudaStream_t stream, const RawLeadingDigits& level, const DigitPlaces& places,
                          const RawDestinations& parts, std::uint64_t* checksum);
void sort_received_digits(cudaStream_t stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                          RawRecords part, RawRecords room, std::uint64_t count);

std::uint64_t merge_scratch_bytes(RecordType type, std::uint64_t left, std::uint64_t right);
void merge(cudaStream_t stream, RecordType type, RawRecords left, std::uint64_t left_count, RawRecords right,
           std::uint64_t right_count, RawRecords to, void* scratch, std::uint64_t scratch_bytes);

void encode(cudaStream_t stream, KeyType type, bool descending, const void* from, void* to, std::uint64_t count);
void decode(cudaStream_t stream, KeyType type, bool descending, const void* from, void* to, std::uint64_t count);
void iota(cudaStream_t stream, ValueWidth width, void* to, std::uint64_t first, std::uint64_t count);
void mark_changes(cudaStream_t stream, int element_bytes, const void* elements, const void* before,
                  std::uint32_t* marks, std::uint64_t count);
void list_marked(cudaStream_t stream, const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first,
                 std::uint64_t* to, std::uint64_t count);
void mark_ties(cudaStream_t stream, const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
               std::uint32_t* marks, std::uint64_t count);
void widen_ranks(cudaStream_t stream, const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count);
void refine_ranks(cudaStream_t stream, const std::uint64_t* positions, std::uint64_t first, const std::uint32_t* finer,
                  std::uint64_t* ranks, std::uint64_t count);
void sample(cudaStream_t stream, KeyType type, bool descending, const void* keys, std::uint64_t count,
            std::uint64_t samples, std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags);

void find_range(cudaStream_t stream, IntegerType type, const void* column, std::uint64_t count, CodeRange* range);
void pack(cudaStream_t stream, const Packing& packing, const void* column, KeyWidth key_width, void* keys,
          std::uint64_t count);

void gather(cudaStream_t stream, int element_bytes, int index_bytes, const RawPieces& from, const void* indices,
            void* to, std::uint64_t count);
void coalesce_rows(cudaStream_t stream, int index_bytes, const void* first, const void* second, std::uint64_t offset,
                   void* to, std::uint64_t count);
void pack_rows(cudaStream_t stream, const RawFields& from, int record_bytes, void* records, std::uint64_t rows);
void gather_packed(cudaStream_t stream, int index_bytes, const RawPieces& from, int record_bytes, const void* indices,
                   const RawFields& to, std::uint64_t count);
void gather_bits(cudaStream_t stream, int index_bytes, const std::uint32_t* bits, const void* indices,
                 std::uint32_t* to, std::uint64_t count);
void shift_offsets(cudaStream_t stream, int from_bytes, const void* from, int to_bytes, void* to, std::uint64_t count,
                   std::uint64_t delta);
void gather_lengths(cudaStream_t stream, int index_bytes, const RawStrings& from, const void* indices,
                    std::uint64_t* lengths, std::uint64_t count);
void gather_strings(cudaStream_t stream, int index_bytes, const RawStrings& from, const void* indices,
                    const std::uint64_t* sums, void* to, std::uint64_t count);
void string_words(cudaStream_t stream, const RawStrings& from, const std::uint8_t* nulls, const RawStringWords& to,
                  std::uint64_t count);
void shared_lengths(cudaStream_t stream, const RawStrings& from, const std::uint8_t* nulls, const RawStrings& other,
                    std::uint64_t* lengths, std::uint64_t count);
void mix_strings_into_hashes(cudaStream_t stream, const RawStrings& from, std::uint64_t* hashes, std::uint64_t count);
void count_unequal_strings(cudaStream_t stream, int index_bytes, const RawStrings& left, const void* left_rows,
                           const RawStrings& right, const void* right_rows, std::uint64_t count,
                           std::uint64_t* unequal);
void mark_unequal_strings(cudaStream_t stream, const RawStrings& from, const std::uint32_t* groups,
                          std::uint32_t* marks, std::uint64_t count);
void expand_bits(cudaStream_t stream, const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes,
                 std::uint8_t* to, std::uint64_t count);
void pack_bits(cudaStream_t stream, const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits,
               std::uint64_t count, std::uint64_t* num_set);
void mix_into_hashes(cudaStream_t stream, KeyWidth width, const void* elements, std::uint64_t* hashes,
                     std::uint64_t count);
void count_unequal(cudaStream_t stream, KeyWidth width, int index_bytes, const RawPieces& left, const void* left_rows,
                   const RawPieces& right, const void* right_rows, std::uint64_t count, std::uint64_t* unequal);
void fill_nulls(cudaStream_t stream, int element_bytes, const std::uint8_t* nulls, void* elements, std::uint64_t count);

void histogram(cudaStream_t stream, KeyWidth width, const void* keys, std::uint64_t count, BitRange bits,
               const Prefixes& prefixes, std::uint64_t* counts);
void checksum(cudaStream_t stream, RecordType type, RawRecords records, std::uint64_t count, std::uint64_t* sum);
void check_part(cudaStream_t stream, RecordType type, KeyCoding coding, RawRecords records, std::uint64_t count,
                PartNumbers* numbers);
void check_order(cudaStream_t stream, KeyWidth width, const void* keys, std::uint64_t count, std::uint64_t* violations);
void select_pivot(cudaStream_t stream, KeyWidth width, const RawSegments& left, const RawSegments& right,
                  std::uint64_t* pivot);

std::uint64_t partition_scratch_bytes(RecordType type, std::uint64_t count, int destinations);
void partition_count(cudaStream_t stream, RecordType type, const void* keys, std::uint64_t count,
                     const Splitters& splitters, void* scratch, std::uint64_t scratch_bytes, std::uint64_t* totals);
void partition(cudaStream_t stream, RecordType type, RawRecords from, std::uint64_t count, const Splitters& splitters,
               const void* scratch, const RawDestinations& to);

std::uint64_t probe_scratch_bytes(std::uint64_t probing_rows);
void probe(cudaStream_t stream, const RawProbe& probe, void* scratch, MatchTotals* totals);
std::uint64_t find_ranges_scratch_bytes(std::uint64_t leading_rows);
void find_ranges(cudaStream_t stream, const RawRangeSearch& search, void* scratch, RangeTotals* totals);
void unify_floats(cudaStream_t stream, KeyType type, void* codes, std::uint64_t count);
void hash_keys(cudaStream_t stream, KeyWidth width, const void* from, void* to, std::uint64_t count);
void hash_probe(cudaStream_t stream, const RawHashProbe& probe, MatchTotals* totals);
std::uint64_t block_memory_bytes();
std::uint64_t hash_pass_scratch_bytes(std::uint32_t runs, std::uint64_t parts);
void count_digits(cudaStream_t stream, const RawHashPass& pass, void* scratch, std::uint64_t* counts);
void move_to_parts(cudaStream_t stream, const RawHashPass& pass, const std::uint64_t* begin, RawRecords to,
                   void* scratch, std::uint64_t* checksum);
void compare_samples(cudaStream_t stream, const RawSamples& samples, SeenKeys* seen);
void list_hash_tasks(cudaStream_t stream, const RawHashTasks& list);
void count_hash_matches(cudaStream_t stream, const RawHashMatch& match, const RawHashCount& count);
void write_hash_matches(cudaStream_t stream, const RawHashMatch& match, const RawHashRows& rows);
void take_hash_rest(cudaStream_t stream, const RawHashRest& rest);

std::uint64_t cache_bytes();
void fill_join_table(cudaStream_t stream, const RawJoinTable& table);
void check_join_table(cudaStream_t stream, const RawJoinTable& table);
void count_table_matches(cudaStream_t stream, const RawTableProbe& probe, MatchTotals* totals);
void write_table_matches(cudaStream_t stream, const RawTableProbe& probe, const RawTableRows& rows);
std::uint64_t running_sums_scratch_bytes(std::uint64_t count);
void running_sums(cudaStream_t stream, IntegerType type, const void* values, std::uint64_t count, std::uint64_t* sums,
                  void* scratch, std::uint64_t scratch_bytes);
void expand(cudaStream_t stream, const RawEmitting& left, const RawEmitting& right, const RawWindow& window);
void expand_unmatched(cudaStream_t stream, const RawEmitting& left, const RawEmitting& right, const RawWindow& window);

}  // namespace linkwise::cuda
