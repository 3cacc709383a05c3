#include "linkwise/sort/device_sort.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/sort_chunks.hpp"
#include "linkwise/sort/strategies/device_radix_sort.hpp"
#include "linkwise/sort/strategies/leading_digits_sort.hpp"
#include "linkwise/sort/strategies/one_gpu_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

class DeviceSort {
 public:
  DeviceSort(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns, const SortOptions& options)
      : runtime_(runtime),
        plan_(plan),
        columns_(columns),
        options_(options),
        type_{key_width(columns.key_type), columns.value_width} {
    for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
      const Place place = Place::gpu(plan.gpus[g]);
      streams_.push_back(runtime.stream(place, "compute"));
      callers_.push_back(runtime.foreign_stream(place, columns.parts[g].stream));
    }
  }

  void run(const TakeParts& take) {
    for (std::size_t g = 0; g < streams_.size(); ++g) runtime_.wait(streams_[g], runtime_.record(callers_[g]));
    std::optional<std::vector<SortedPart>> parts = sort_native_keys();
    if (!parts) parts = sort_codes();
    runtime_.flush();
    take(*std::move(parts));
    if (!verifier_) return;
    runtime_.set_phase("verify");
    verifier_->finish();
  }

 private:
  [[nodiscard]] std::uint64_t native_key_bytes() const {
    return static_cast<std::uint64_t>(native_bytes(columns_.key_type));
  }
  [[nodiscard]] bool is_narrow() const { return native_key_bytes() < type_.key_bytes(); }

  // Encodes the keys, sorts by them, and decodes them.
  std::vector<SortedPart> sort_codes() {
    const std::vector<Records> input = encoded_input();
    if (options_.verify) {
      verifier_.emplace(runtime_, streams_, own_codes(type_.key));
      runtime_.set_phase("verify input");
      verifier_->before(input);
    }
    // Keys that were encoded into our own memory may be overwritten; if there are values, only donated input may be.
    const bool overwrites = columns_.donated || (!codes_.empty() && type_.value == ValueWidth::none);
    std::vector<SortedRecords> sorted = plan_.strategy == SortStrategy::radix
                                            ? device_radix_sort(runtime_, plan_, streams_, input, overwrites)
                                            : merge_sort(input);
    for (Buffer& codes : codes_) runtime_.retire(std::move(codes));
    begin_to_verify(sorted);
    std::vector<SortedPart> parts;
    for (std::size_t g = 0; g < sorted.size(); ++g) parts.push_back(finished(g, decoded(g, std::move(sorted[g]))));
    return parts;
  }

  // Sorts native keys without encoding them first, if they suit MSD radix sort.
  std::optional<std::vector<SortedPart>> sort_native_keys() {
    if (plan_.strategy != SortStrategy::radix || plan_.device_buckets > 1 || is_narrow()) return std::nullopt;
    const KeyCoding coding{columns_.key_type, options_.descending};
    std::vector<MemoryView> checksums;
    if (options_.verify) {
      verifier_.emplace(runtime_, streams_, coding);
      for (std::size_t g = 0; g < streams_.size(); ++g) checksums.push_back(verifier_->came_in(g));
    }
    std::optional<std::vector<SortedRecords>> sorted = sort_native_keys(coding, checksums);
    if (!sorted) return std::nullopt;
    begin_to_verify(*sorted);
    std::vector<SortedPart> parts;
    for (std::size_t g = 0; g < sorted->size(); ++g) parts.push_back(finished(g, part_of(g, std::move((*sorted)[g]))));
    return parts;
  }

  std::optional<std::vector<SortedRecords>> sort_native_keys(KeyCoding coding, std::span<const MemoryView> checksums) {
    std::vector<Records> input;
    for (std::size_t g = 0; g < streams_.size(); ++g) input.push_back(callers_records(g));
    if (input.size() > 1)
      return sort_by_leading_digits(runtime_, plan_, streams_, coding, input, columns_.donated, checksums);
    std::optional<SortedRecords> sorted =
        sort_on_one_gpu(runtime_, streams_.front(), coding, input.front(), columns_.donated,
                        checksums.empty() ? MemoryView{} : checksums.front());
    if (!sorted) return std::nullopt;
    std::vector<SortedRecords> one;
    one.push_back(*std::move(sorted));
    return one;
  }

  void begin_to_verify(std::span<const SortedRecords> sorted) {
    if (!options_.verify) return;
    runtime_.set_phase("verify");
    std::vector<Records> records;
    for (const SortedRecords& part : sorted) records.push_back(part.records);
    verifier_->look_at(records);
  }

  [[nodiscard]] Records callers_records(std::size_t g) const {
    const DevicePart& part = columns_.parts[g];
    const auto view = [&](void* data, std::uint64_t bytes) {
      return MemoryView{streams_[g].place, static_cast<std::byte*>(data), bytes, 0, false};
    };
    return {type_, part.count, view(part.keys, part.count * native_key_bytes()),
            view(part.values, part.count * type_.value_bytes())};
  }

  // The caller's records with keys encoded: in place if the input is donated and keys are not narrow.
  std::vector<Records> encoded_input() {
    runtime_.set_phase("encode");
    std::vector<Records> input;
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      const DevicePart& part = columns_.parts[g];
      Records records = callers_records(g);
      const MemoryView keys = records.keys;
      if (!is_own_code(columns_.key_type, options_.descending)) {
        if (!columns_.donated || is_narrow()) {
          codes_.push_back(runtime_.allocate(keys.place, part.count * type_.key_bytes(), "codes"));
          records.keys = codes_.back().view();
        }
        encode(runtime_, streams_[g], columns_.key_type, options_.descending, keys, records.keys);
      }
      input.push_back(records);
    }
    return input;
  }

  std::vector<SortedRecords> merge_sort(const std::vector<Records>& input) {
    std::uint64_t capacity = 0;
    for (const Records& records : input) capacity = std::max(capacity, records.count);
    Router router(runtime_, plan_.paths, plan_.relay_bytes);
    std::vector<Chunk> chunks;
    for (std::size_t g = 0; g < input.size(); ++g) {
      runtime_.reserve(streams_[g].place, chunk_bytes(runtime_.kernels(), plan_, type_, capacity));
      Chunk& chunk = chunks.emplace_back(runtime_, plan_, plan_.gpus[g], type_, capacity);
      chunk.set_count(input[g].count);
      copy(runtime_, streams_[g], chunk.records(), input[g]);
    }
    sort_chunks(runtime_, router, plan_, chunks);
    router.retire();
    std::vector<SortedRecords> sorted;
    for (Chunk& chunk : chunks) {
      const Records records = chunk.records();
      sorted.push_back({chunk.take(runtime_), records});
    }
    return sorted;
  }

  [[nodiscard]] SortedPart part_of(std::size_t g, SortedRecords sorted) const {
    return {plan_.gpus[g],       sorted.records.count,  std::move(sorted.memory),
            sorted.records.keys, sorted.records.values, nullptr};
  }

  // Decodes the keys of the result.
  SortedPart decoded(std::size_t g, SortedRecords sorted) {
    runtime_.set_phase("decode");
    SortedPart part = part_of(g, std::move(sorted));
    if (!is_own_code(columns_.key_type, options_.descending)) {
      // Narrow keys are decoded into new memory: in place, threads could overwrite codes that others still need.
      if (is_narrow()) {
        const MemoryView codes = part.keys;
        Buffer codes_and_values = std::exchange(part.memory, {});
        const std::uint64_t key_bytes = align_up(part.count * native_key_bytes(), device_alignment);
        part.memory = runtime_.allocate(codes.place, key_bytes + part.values.bytes, "sorted records");
        part.keys = part.memory.slice(0, part.count * native_key_bytes());
        decode(runtime_, streams_[g], columns_.key_type, options_.descending, codes, part.keys);
        const MemoryView values = part.memory.slice(key_bytes, part.values.bytes);
        if (values.bytes > 0) runtime_.copy(streams_[g], values, part.values);
        part.values = values;
        runtime_.retire(std::move(codes_and_values));
      } else {
        decode(runtime_, streams_[g], columns_.key_type, options_.descending, part.keys, part.keys);
      }
    }
    return part;
  }

  // Makes the caller's stream wait for the part.
  SortedPart finished(std::size_t g, SortedPart part) {
    const Event ready = runtime_.record(streams_[g]);
    runtime_.wait(callers_[g], ready);
    part.ready = runtime_.share(ready);
    return part;
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  const DeviceColumns& columns_;
  const SortOptions& options_;
  RecordType type_;
  std::vector<Stream> streams_, callers_;
  std::vector<Buffer> codes_;
  std::optional<SortVerifier> verifier_;
};

}  // namespace

void sort_device(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns, const SortOptions& options,
                 const TakeParts& take) {
  check_gpus(runtime.machine(), plan);
  if (plan.strategy == SortStrategy::het || plan.strategy == SortStrategy::cpu)
    throw UsageError("het and cpu work in host memory; sort data that lies on GPUs by radix or p2p_merge");
  if (columns.parts.size() != plan.gpus.size())
    throw UsageError("there are " + std::to_string(columns.parts.size()) + " parts for " +
                     std::to_string(plan.gpus.size()) + " GPUs; give one for each");
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] { DeviceSort(runtime, plan, columns, options).run(take); });
}

std::vector<SortedPart> sort_device(Runtime& runtime, const SortPlan& plan, const DeviceColumns& columns,
                                    const SortOptions& options) {
  std::vector<SortedPart> sorted;
  sort_device(runtime, plan, columns, options, [&](std::vector<SortedPart> parts) { sorted = std::move(parts); });
  return sorted;
}

}  // namespace linkwise
