#include "linkwise/sort/host_sort.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"
#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/streamed_radix_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

bool is_streamed(const SortPlan& plan) { return plan.strategy == SortStrategy::radix && plan.streamed; }

// Bytes that each GPU needs to sort that many records at once.
std::uint64_t bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t records) {
  return is_streamed(plan) ? StreamedRadixSort::bytes_per_gpu(kernels, plan, type, records)
                           : chunk_bytes(kernels, plan, type, chunk_capacity(plan, records));
}

class HostSort {
 public:
  HostSort(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
           const SortOptions& options)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        output_(output),
        options_(options),
        io_(runtime, input, options),
        type_(io_.record_type()) {}

  void run() {
    at_once_ = plan_.chunkset_records == 0 ? input_.count : std::min(input_.count, plan_.chunkset_records);
    if (is_streamed(plan_)) streamed_ = std::make_unique<StreamedRadixSort>(runtime_, plan_, io_, at_once_);
    if (at_once_ >= input_.count) sort_chunkset(0, input_.count, output_, /*as_codes=*/false);
    else sort_in_chunksets();
    runtime_.synchronize();
  }

 private:
  // Sorts rows [first, first + count) of the input into `to`, as native keys or as codes.
  void sort_chunkset(std::uint64_t first, std::uint64_t count, const HostOutputs& to, bool as_codes) {
    if (streamed_) {
      if (streamed_->sort(input_.key_type, first, count, to, as_codes, options_)) return;
      streamed_.reset();  // the samples were very unlucky: go on without estimates of what each bucket receives
    }
    if (chunks_.empty()) make_chunks();
    const std::uint64_t gpus = chunks_.size();
    runtime_.set_phase("HtoD");
    for (std::uint64_t g = 0; g < gpus; ++g) {
      const std::uint64_t begin = first + count * g / gpus, end = first + count * (g + 1) / gpus;
      chunks_[g].set_count(end - begin);
      const Records records = chunks_[g].records();
      const MemoryView raw = native_bytes_beside(chunks_[g]);
      io_.copy_in(chunks_[g].stream(), begin, records, raw);
      io_.encode_rows(chunks_[g].stream(), begin, records, raw);
    }
    SortVerifier verifier(runtime_, chunks_);
    if (options_.verify) {
      runtime_.set_phase("verify input");
      verifier.before();
    }
    sort_chunks(runtime_, plan_, chunks_);
    if (options_.verify) {
      runtime_.set_phase("verify");
      verifier.check();
    }
    runtime_.set_phase("DtoH");
    std::uint64_t row = 0;
    for (const Chunk& chunk : chunks_) {
      const Records records = chunk.records();
      const bool decodes = !as_codes && to.keys != nullptr;
      const MemoryView keys =
          decodes ? io_.decode_keys(chunk.stream(), records, native_bytes_beside(chunk)) : records.keys;
      io_.copy_out(chunk.stream(), row, records, keys, as_codes ? type_.key_bytes() : io_.native_key_bytes(), to);
      row += records.count;
    }
    for (const Chunk& chunk : chunks_) runtime_.wait(runtime_.record(chunk.stream()));
  }

  void make_chunks() {
    const std::uint64_t capacity = chunk_capacity(plan_, at_once_);
    for (const int gpu : plan_.gpus) {
      runtime_.reserve(Place::gpu(gpu), chunk_bytes(runtime_.kernels(), plan_, type_, capacity));
      chunks_.emplace_back(runtime_, plan_, gpu, type_, capacity);
    }
  }

  // Room for the native bytes of a chunk's keys, in the buffer that is not in use.
  [[nodiscard]] MemoryView native_bytes_beside(const Chunk& chunk) const {
    return chunk.other(chunk.count()).keys.slice(0, chunk.count() * io_.native_key_bytes());
  }

  // Every chunkset becomes a run of codes in host memory; then the runs are merged into the output.
  void sort_in_chunksets() {
    const Buffer runs = runtime_.allocate(Place::host(), record_bytes(type_, input_.count), "runs");
    const Records all = records_in(runs.view(), type_, input_.count);
    std::vector<HostRun> parts;
    for (std::uint64_t first = 0; first < input_.count; first += at_once_) {
      const std::uint64_t count = std::min(at_once_, input_.count - first);
      const Records run = all.slice(first, count);
      sort_chunkset(first, count, {run.keys.data, type_.value == ValueWidth::none ? nullptr : run.values.data},
                    /*as_codes=*/true);
      parts.push_back({run.keys.data, run.values.data, count});
    }
    merge_runs(parts, all);
  }

  void merge_runs(const std::vector<HostRun>& parts, const Records& all) {
    runtime_.set_phase("merge runs");
    const Stream host = runtime_.stream(Place::host(), "merge");
    const bool into_output = output_.keys != nullptr && !io_.is_narrow();
    const Buffer merged = runtime_.allocate(Place::host(), into_output ? 0 : all.keys.bytes, "merged codes");
    void* codes = into_output ? output_.keys : merged.view().data;
    const Buffer spare_values =
        runtime_.allocate(Place::host(), output_.values == nullptr ? all.values.bytes : 0, "merged values");
    void* values = output_.values == nullptr ? spare_values.view().data : output_.values;
    Operation operation{"multiway merge", {all.keys}, {here(codes, all.keys.bytes)}, {}, {}};
    if (type_.value != ValueWidth::none) {
      operation.reads.push_back(all.values);
      operation.writes.push_back(here(values, all.values.bytes));
    }
    if (output_.keys != nullptr && !into_output)
      operation.writes.push_back(here(output_.keys, input_.count * io_.native_key_bytes()));
    operation.work = {"multiway_merge", input_.count, static_cast<double>(type_.bytes())};
    operation.run = [this, parts, codes, values](void*) {
      multiway_merge(type_, parts, codes, values);
      if (output_.keys != nullptr) decode_on_host(codes);
    };
    runtime_.enqueue(host, std::move(operation));
    runtime_.wait(runtime_.record(host));
  }

  static MemoryView here(void* data, std::uint64_t bytes) {
    return {Place::host(), static_cast<std::byte*>(data), bytes, 0, false};
  }

  void decode_on_host(const void* codes) const {
    with_bits(native_bytes(input_.key_type), [&](auto tag) {
      using Bits = typename decltype(tag)::type;
      using Code = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;
      const auto* from = static_cast<const Code*>(codes);
      auto* to = static_cast<Bits*>(output_.keys);
#pragma omp parallel for
      for (std::uint64_t i = 0; i < input_.count; ++i)
        to[i] = decode_bits<Bits>(static_cast<Bits>(from[i]), key_class(input_.key_type), options_.descending);
    });
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  const HostColumns& input_;
  const HostOutputs& output_;
  const SortOptions& options_;
  HostIo io_;
  RecordType type_;
  std::uint64_t at_once_ = 0;
  std::unique_ptr<StreamedRadixSort> streamed_;
  std::vector<Chunk> chunks_;
};

void validate(const Runtime& runtime, const SortPlan& plan) {
  if (plan.gpus.empty()) throw UsageError("a sort needs at least one GPU");
  for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
    if (plan.gpus[g] < 0 || plan.gpus[g] >= runtime.machine().num_gpus())
      throw UsageError("there is no GPU " + std::to_string(plan.gpus[g]) + "; machine '" + runtime.machine().name +
                       "' has " + std::to_string(runtime.machine().num_gpus()) + " GPUs, from 0");
    if (std::find(plan.gpus.begin(), plan.gpus.begin() + static_cast<std::ptrdiff_t>(g), plan.gpus[g]) !=
        plan.gpus.begin() + static_cast<std::ptrdiff_t>(g))
      throw UsageError("GPU " + std::to_string(plan.gpus[g]) + " is named twice");
  }
}

}  // namespace

std::uint64_t records_that_fit(Runtime& runtime, const SortPlan& plan, RecordType type) {
  validate(runtime, plan);
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  for (const int gpu : plan.gpus) available = std::min(available, runtime.available(Place::gpu(gpu)));
  // An eighth of a percent is left for verification counters and rounding.
  available -= available / 800;
  std::uint64_t low = 0, high = available / type.key_bytes() * plan.gpus.size();
  while (low < high) {
    const std::uint64_t middle = high - (high - low) / 2;
    if (bytes_per_gpu(runtime.kernels(), plan, type, middle) <= available) low = middle;
    else high = middle - 1;
  }
  if (low < 1024)
    throw OutOfMemoryError("the GPUs offer " + std::to_string(available) +
                           " bytes each, too few to sort anything; raise memory_limit");
  return low;
}

SortReport sort_host(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                     const SortOptions& options) {
  validate(runtime, plan);
  runtime.clear_timeline();
  if (input.count > 0) HostSort(runtime, plan, input, output, options).run();
  SortReport report;
  report.timeline = runtime.timeline();
  report.phases = phase_times(report.timeline);
  for (const PhaseTime& phase : report.phases) report.seconds += phase.seconds;
  report.verified = options.verify;
  return report;
}

}  // namespace linkwise
