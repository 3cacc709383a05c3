#include "linkwise/primitives/cuda/cuda_kernels.hpp"

#include <utility>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/cuda/current_device.hpp"

namespace linkwise {
namespace {

cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }

class CudaKernels final : public Kernels {
 public:
  // CUDA loads a kernel at its first launch, which waits for the device: while a stream waits for a flag,
  // such a launch would deadlock. So load all of our kernels first, on every device.
  void load() const override {
    const CurrentDevice kept;
    int count = 0;
    check(cudaGetDeviceCount(&count), "count devices");
    for (int device = 0; device < count; ++device) {
      check(cudaSetDevice(device), "use device");
      for (const auto& list : {cuda::elementwise_kernels(), cuda::gather_kernels(), cuda::string_kernels(),
                               cuda::packing_kernels(), cuda::reduce_kernels(), cuda::partition_kernels(),
                               cuda::match_kernels(), cuda::range_kernels(), cuda::hash_match_kernels(),
                               cuda::hash_join_kernels(), cuda::join_table_kernels(), cuda::msd_sort_kernels()})
        for (const void* kernel : list) {
          cudaFuncAttributes attributes{};
          check(cudaFuncGetAttributes(&attributes, kernel), "load kernel");
        }
    }
  }

  std::uint64_t sort_scratch_bytes(RecordType type, std::uint64_t count) const override {
    return cuda::radix_sort_scratch_bytes(type, count);
  }
  bool sort_lands_in_secondary(RecordType type, std::uint64_t count, BitRange bits) const override {
    return cuda::radix_sort_lands_in_secondary(type, count, bits);
  }
  void sort(void* stream, RecordType type, RawRecords primary, RawRecords secondary, std::uint64_t count, BitRange bits,
            void* scratch, std::uint64_t scratch_bytes) const override {
    cuda::radix_sort(on(stream), type, primary, secondary, count, bits, scratch, scratch_bytes);
  }
  std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) const override {
    return cuda::msd_sort_scratch_bytes(type, count);
  }
  std::uint64_t fewest_for_msd_sort(RecordType type) const override { return cuda::fewest_for_msd_sort(type); }
  void look_at_keys(void* stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                    SortBuffers buffers, ExpectedKeys expected, void* scratch, KeySpread* spread) const override {
    cuda::look_at_keys(on(stream), coding, input, type, count, buffers, expected, scratch, spread);
  }
  void msd_sort(void* stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result, RawRecords room,
                std::uint64_t count, ExpectedKeys expected, void* scratch, std::uint64_t* checksum) const override {
    cuda::msd_sort(on(stream), coding, type, input, result, room, count, expected, scratch, checksum);
  }
  std::uint64_t leading_digits_bytes() const override { return cuda::leading_digits_bytes(); }
  std::uint64_t leading_digits_scratch_bytes(RecordType type, std::uint64_t count) const override {
    return cuda::leading_digits_scratch_bytes(type, count);
  }
  void look_at_all_keys(void* stream, const RawLeadingDigits& level, const RawSegments& samples, std::uint64_t total,
                        KeySpread* spread) const override {
    cuda::look_at_all_keys(on(stream), level, samples, total, spread);
  }
  void count_leading_digits(void* stream, const RawLeadingDigits& level, LeadingDigitCounts* counts) const override {
    cuda::count_leading_digits(on(stream), level, counts);
  }
  void store_leading_digits(void* stream, const RawLeadingDigits& level, const DigitPlaces& places,
                            const RawDestinations& parts, std::uint64_t* checksum) const override {
    cuda::store_leading_digits(on(stream), level, places, parts, checksum);
  }
  void sort_received_digits(void* stream, const RawLeadingDigits& level, const ReceivedDigits& received,
                            RawRecords part, RawRecords room, std::uint64_t count) const override {
    cuda::sort_received_digits(on(stream), level, received, part, room, count);
  }
  std::uint64_t merge_scratch_bytes(RecordType type, std::uint64_t left, std::uint64_t right) const override {
    return cuda::merge_scratch_bytes(type, left, right);
  }
  void merge(void* stream, RecordType type, RawRecords left, std::uint64_t left_count, RawRecords right,
             std::uint64_t right_count, RawRecords to, void* scratch, std::uint64_t scratch_bytes) const override {
    cuda::merge(on(stream), type, left, left_count, right, right_count, to, scratch, scratch_bytes);
  }
  void encode(void* stream, KeyType type, bool descending, const void* from, void* to,
              std::uint64_t count) const override {
    cuda::encode(on(stream), type, descending, from, to, count);
  }
  void decode(void* stream, KeyType type, bool descending, const void* from, void* to,
              std::uint64_t count) const override {
    cuda::decode(on(stream), type, descending, from, to, count);
  }
  void iota(void* stream, ValueWidth width, void* to, std::uint64_t first, std::uint64_t count) const override {
    cuda::iota(on(stream), width, to, first, count);
  }
  void mark_changes(void* stream, int element_bytes, const void* elements, const void* before, std::uint32_t* marks,
                    std::uint64_t count) const override {
    cuda::mark_changes(on(stream), element_bytes, elements, before, marks, count);
  }
  void list_marked(void* stream, const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first,
                   std::uint64_t* to, std::uint64_t count) const override {
    cuda::list_marked(on(stream), marks, sums, first, to, count);
  }
  void mark_ties(void* stream, const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
                 std::uint32_t* marks, std::uint64_t count) const override {
    cuda::mark_ties(on(stream), words, changes, next, marks, count);
  }
  void widen_ranks(void* stream, const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count) const override {
    cuda::widen_ranks(on(stream), ranks, to, count);
  }
  void refine_ranks(void* stream, const std::uint64_t* positions, std::uint64_t first, const std::uint32_t* finer,
                    std::uint64_t* ranks, std::uint64_t count) const override {
    cuda::refine_ranks(on(stream), positions, first, finer, ranks, count);
  }
  void set_bytes(void* stream, void* to, std::uint8_t byte, std::uint64_t bytes) const override {
    check(cudaMemsetAsync(to, byte, bytes, on(stream)), "set bytes");
  }
  void sample(void* stream, KeyType type, bool descending, const void* keys, std::uint64_t count, std::uint64_t samples,
              std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags) const override {
    cuda::sample(on(stream), type, descending, keys, count, samples, seed, tag_base, codes, tags);
  }
  void find_range(void* stream, IntegerType type, const void* column, std::uint64_t count, void* range) const override {
    cuda::find_range(on(stream), type, column, count, static_cast<CodeRange*>(range));
  }
  void pack(void* stream, const Packing& packing, const void* column, KeyWidth key_width, void* keys,
            std::uint64_t count) const override {
    cuda::pack(on(stream), packing, column, key_width, keys, count);
  }
  void gather(void* stream, int element_bytes, int index_bytes, const RawPieces& from, const void* indices, void* to,
              std::uint64_t count) const override {
    cuda::gather(on(stream), element_bytes, index_bytes, from, indices, to, count);
  }
  void coalesce_rows(void* stream, int index_bytes, const void* first, const void* second, std::uint64_t offset,
                     void* to, std::uint64_t count) const override {
    cuda::coalesce_rows(on(stream), index_bytes, first, second, offset, to, count);
  }
  void pack_rows(void* stream, const RawFields& from, int record_bytes, void* records,
                 std::uint64_t rows) const override {
    cuda::pack_rows(on(stream), from, record_bytes, records, rows);
  }
  void gather_packed(void* stream, int index_bytes, const RawPieces& from, int record_bytes, const void* indices,
                     const RawFields& to, std::uint64_t count) const override {
    cuda::gather_packed(on(stream), index_bytes, from, record_bytes, indices, to, count);
  }
  void gather_bits(void* stream, int index_bytes, const std::uint32_t* bits, const void* indices, std::uint32_t* to,
                   std::uint64_t count) const override {
    cuda::gather_bits(on(stream), index_bytes, bits, indices, to, count);
  }
  void shift_offsets(void* stream, int from_bytes, const void* from, int to_bytes, void* to, std::uint64_t count,
                     std::uint64_t delta) const override {
    cuda::shift_offsets(on(stream), from_bytes, from, to_bytes, to, count, delta);
  }
  void gather_lengths(void* stream, int index_bytes, const RawStrings& from, const void* indices,
                      std::uint64_t* lengths, std::uint64_t count) const override {
    cuda::gather_lengths(on(stream), index_bytes, from, indices, lengths, count);
  }
  void gather_strings(void* stream, int index_bytes, const RawStrings& from, const void* indices,
                      const std::uint64_t* sums, void* to, std::uint64_t count) const override {
    cuda::gather_strings(on(stream), index_bytes, from, indices, sums, to, count);
  }
  void string_words(void* stream, const RawStrings& from, const std::uint8_t* nulls, const RawStringWords& to,
                    std::uint64_t count) const override {
    cuda::string_words(on(stream), from, nulls, to, count);
  }
  void shared_lengths(void* stream, const RawStrings& from, const std::uint8_t* nulls, const RawStrings& other,
                      std::uint64_t* lengths, std::uint64_t count) const override {
    cuda::shared_lengths(on(stream), from, nulls, other, lengths, count);
  }
  void mix_strings_into_hashes(void* stream, const RawStrings& from, std::uint64_t* hashes,
                               std::uint64_t count) const override {
    cuda::mix_strings_into_hashes(on(stream), from, hashes, count);
  }
  void count_unequal_strings(void* stream, int index_bytes, const RawStrings& left, const void* left_rows,
                             const RawStrings& right, const void* right_rows, std::uint64_t count,
                             std::uint64_t* unequal) const override {
    cuda::count_unequal_strings(on(stream), index_bytes, left, left_rows, right, right_rows, count, unequal);
  }
  void mark_unequal_strings(void* stream, const RawStrings& from, const std::uint32_t* groups, std::uint32_t* marks,
                            std::uint64_t count) const override {
    cuda::mark_unequal_strings(on(stream), from, groups, marks, count);
  }
  void expand_bits(void* stream, const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes, std::uint8_t* to,
                   std::uint64_t count) const override {
    cuda::expand_bits(on(stream), bits, first, bytes, to, count);
  }
  void pack_bits(void* stream, const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits, std::uint64_t count,
                 std::uint64_t* num_set) const override {
    cuda::pack_bits(on(stream), bytes, set, bits, count, num_set);
  }
  void mix_into_hashes(void* stream, KeyWidth width, const void* elements, std::uint64_t* hashes,
                       std::uint64_t count) const override {
    cuda::mix_into_hashes(on(stream), width, elements, hashes, count);
  }
  void count_unequal(void* stream, KeyWidth width, int index_bytes, const RawPieces& left, const void* left_rows,
                     const RawPieces& right, const void* right_rows, std::uint64_t count,
                     std::uint64_t* unequal) const override {
    cuda::count_unequal(on(stream), width, index_bytes, left, left_rows, right, right_rows, count, unequal);
  }
  void fill_nulls(void* stream, int element_bytes, const std::uint8_t* nulls, void* elements,
                  std::uint64_t count) const override {
    cuda::fill_nulls(on(stream), element_bytes, nulls, elements, count);
  }
  void histogram(void* stream, KeyWidth width, const void* keys, std::uint64_t count, BitRange bits,
                 const Prefixes& prefixes, std::uint64_t* counts) const override {
    cuda::histogram(on(stream), width, keys, count, bits, prefixes, counts);
  }
  std::uint64_t partition_scratch_bytes(RecordType type, std::uint64_t count, int destinations) const override {
    return cuda::partition_scratch_bytes(type, count, destinations);
  }
  void partition_count(void* stream, RecordType type, const void* keys, std::uint64_t count, const Splitters& splitters,
                       void* scratch, std::uint64_t scratch_bytes, std::uint64_t* totals) const override {
    cuda::partition_count(on(stream), type, keys, count, splitters, scratch, scratch_bytes, totals);
  }
  void partition(void* stream, RecordType type, RawRecords from, std::uint64_t count, const Splitters& splitters,
                 const void* scratch, const RawDestinations& to) const override {
    cuda::partition(on(stream), type, from, count, splitters, scratch, to);
  }
  void checksum(void* stream, RecordType type, RawRecords records, std::uint64_t count,
                std::uint64_t* sum) const override {
    cuda::checksum(on(stream), type, records, count, sum);
  }
  void check_part(void* stream, RecordType type, KeyCoding coding, RawRecords records, std::uint64_t count,
                  PartNumbers* numbers) const override {
    cuda::check_part(on(stream), type, coding, records, count, numbers);
  }
  void check_order(void* stream, KeyWidth width, const void* keys, std::uint64_t count,
                   std::uint64_t* violations) const override {
    cuda::check_order(on(stream), width, keys, count, violations);
  }
  void select_pivot(void* stream, KeyWidth width, const RawSegments& left, const RawSegments& right,
                    std::uint64_t* pivot) const override {
    cuda::select_pivot(on(stream), width, left, right, pivot);
  }
  std::uint64_t probe_scratch_bytes(std::uint64_t probing_rows) const override {
    return cuda::probe_scratch_bytes(probing_rows);
  }
  void probe(void* stream, const RawProbe& probe, void* scratch, MatchTotals* totals) const override {
    cuda::probe(on(stream), probe, scratch, totals);
  }
  std::uint64_t find_ranges_scratch_bytes(std::uint64_t leading_rows) const override {
    return cuda::find_ranges_scratch_bytes(leading_rows);
  }
  void find_ranges(void* stream, const RawRangeSearch& search, void* scratch, RangeTotals* totals) const override {
    cuda::find_ranges(on(stream), search, scratch, totals);
  }
  void unify_floats(void* stream, KeyType type, void* codes, std::uint64_t count) const override {
    cuda::unify_floats(on(stream), type, codes, count);
  }
  void hash_keys(void* stream, KeyWidth width, const void* from, void* to, std::uint64_t count) const override {
    cuda::hash_keys(on(stream), width, from, to, count);
  }
  void hash_probe(void* stream, const RawHashProbe& probe, MatchTotals* totals) const override {
    cuda::hash_probe(on(stream), probe, totals);
  }
  std::uint64_t block_memory_bytes() const override { return cuda::block_memory_bytes(); }
  std::uint64_t hash_pass_scratch_bytes(std::uint32_t runs, std::uint64_t parts) const override {
    return cuda::hash_pass_scratch_bytes(runs, parts);
  }
  void count_digits(void* stream, const RawHashPass& pass, void* scratch, std::uint64_t* counts) const override {
    cuda::count_digits(on(stream), pass, scratch, counts);
  }
  void move_to_parts(void* stream, const RawHashPass& pass, const std::uint64_t* begin, RawRecords to, void* scratch,
                     std::uint64_t* checksum) const override {
    cuda::move_to_parts(on(stream), pass, begin, to, scratch, checksum);
  }
  void compare_samples(void* stream, const RawSamples& samples, SeenKeys* seen) const override {
    cuda::compare_samples(on(stream), samples, seen);
  }
  void list_hash_tasks(void* stream, const RawHashTasks& list) const override {
    cuda::list_hash_tasks(on(stream), list);
  }
  void count_hash_matches(void* stream, const RawHashMatch& match, const RawHashCount& count) const override {
    cuda::count_hash_matches(on(stream), match, count);
  }
  void write_hash_matches(void* stream, const RawHashMatch& match, const RawHashRows& rows) const override {
    cuda::write_hash_matches(on(stream), match, rows);
  }
  void take_hash_rest(void* stream, const RawHashRest& rest) const override { cuda::take_hash_rest(on(stream), rest); }
  std::uint64_t cache_bytes() const override { return cuda::cache_bytes(); }
  void fill_join_table(void* stream, const RawJoinTable& table) const override {
    cuda::fill_join_table(on(stream), table);
  }
  void check_join_table(void* stream, const RawJoinTable& table) const override {
    cuda::check_join_table(on(stream), table);
  }
  void count_table_matches(void* stream, const RawTableProbe& probe, MatchTotals* totals) const override {
    cuda::count_table_matches(on(stream), probe, totals);
  }
  void write_table_matches(void* stream, const RawTableProbe& probe, const RawTableRows& rows) const override {
    cuda::write_table_matches(on(stream), probe, rows);
  }
  std::uint64_t running_sums_scratch_bytes(std::uint64_t count) const override {
    return cuda::running_sums_scratch_bytes(count);
  }
  void running_sums(void* stream, IntegerType type, const void* values, std::uint64_t count, std::uint64_t* sums,
                    void* scratch, std::uint64_t scratch_bytes) const override {
    cuda::running_sums(on(stream), type, values, count, sums, scratch, scratch_bytes);
  }
  void expand(void* stream, const RawEmitting& left, const RawEmitting& right, const RawWindow& window) const override {
    cuda::expand(on(stream), left, right, window);
  }
  void expand_unmatched(void* stream, const RawEmitting& left, const RawEmitting& right,
                        const RawWindow& window) const override {
    cuda::expand_unmatched(on(stream), left, right, window);
  }
};

}  // namespace

std::unique_ptr<Kernels> make_cuda_kernels() { return std::make_unique<CudaKernels>(); }

std::unique_ptr<Runtime> open_gpus(Machine machine) {
  const std::shared_ptr<const Kernels> kernels = make_cuda_kernels();
  return make_cuda_runtime(std::move(machine), kernels, [&] { kernels->load(); });
}

}  // namespace linkwise
