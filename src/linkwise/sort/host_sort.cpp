#include "linkwise/sort/host_sort.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"
#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

MemoryView host_view(const void* data, std::uint64_t bytes, bool pageable) {
  // Reads do not change what they read, so the input's const is kept by never writing through the view.
  return {Place::host(), static_cast<std::byte*>(const_cast<void*>(data)), bytes, 0, pageable};  // NOLINT
}

const std::byte* at(const void* data, std::uint64_t bytes) { return static_cast<const std::byte*>(data) + bytes; }
std::byte* at(void* data, std::uint64_t bytes) { return static_cast<std::byte*>(data) + bytes; }

class HostSort {
 public:
  HostSort(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
           const SortOptions& options)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        output_(output),
        options_(options),
        type_{key_width(input.key_type), input.value_width} {}

  void run() {
    const std::uint64_t at_once =
        plan_.chunkset_records == 0 ? input_.count : std::min(input_.count, plan_.chunkset_records);
    make_chunks(at_once);
    if (at_once >= input_.count) {
      sort_chunkset(0, input_.count, output_, /*decode_keys=*/true);
    } else {
      sort_in_chunksets(at_once);
    }
    runtime_.synchronize();
  }

 private:
  [[nodiscard]] std::uint64_t native() const { return static_cast<std::uint64_t>(native_bytes(input_.key_type)); }
  [[nodiscard]] bool narrow() const { return native() < type_.key_bytes(); }

  void make_chunks(std::uint64_t at_once) {
    const std::uint64_t capacity = chunk_capacity(plan_, at_once);
    for (const int gpu : plan_.gpus) {
      runtime_.reserve(Place::gpu(gpu), chunk_bytes(runtime_.kernels(), plan_, type_, capacity));
      chunks_.emplace_back(runtime_, plan_, gpu, type_, capacity);
    }
  }

  // Sorts records [first, first + count) of the input into `to`, as native keys or as codes.
  void sort_chunkset(std::uint64_t first, std::uint64_t count, const HostOutputs& to, bool decode_keys) {
    const std::uint64_t gpus = chunks_.size();
    runtime_.set_phase("HtoD");
    for (std::uint64_t g = 0; g < gpus; ++g) {
      const std::uint64_t begin = first + count * g / gpus, end = first + count * (g + 1) / gpus;
      chunks_[g].set_count(end - begin);
      load(chunks_[g], begin, end - begin);
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
    std::uint64_t begin = 0;
    for (Chunk& chunk : chunks_) {
      store(chunk, begin, to, decode_keys);
      begin += chunk.count();
    }
    for (const Chunk& chunk : chunks_) runtime_.wait(runtime_.record(chunk.stream()));
  }

  void load(Chunk& chunk, std::uint64_t first, std::uint64_t count) {
    const Records records = chunk.records();
    // Narrow keys cross the link as they are and are widened on the other side.
    const MemoryView raw = narrow() ? chunk.other(count).keys.slice(0, count * native()) : records.keys;
    if (count > 0)
      runtime_.copy(chunk.stream(), raw,
                    host_view(at(input_.keys, first * native()), count * native(), input_.pageable));
    if (!is_own_code(input_.key_type, options_.descending))
      encode(runtime_, chunk.stream(), input_.key_type, options_.descending, raw, records.keys);
    if (type_.value == ValueWidth::none || count == 0) return;
    if (input_.values == nullptr) return iota(runtime_, chunk.stream(), type_.value, records.values, first);
    runtime_.copy(
        chunk.stream(), records.values,
        host_view(at(input_.values, first * type_.value_bytes()), count * type_.value_bytes(), input_.pageable));
  }

  void store(Chunk& chunk, std::uint64_t first, const HostOutputs& to, bool decode_keys) {
    const Records records = chunk.records();
    if (records.count == 0) return;
    if (to.keys != nullptr) {
      MemoryView out = records.keys;
      if (decode_keys && !is_own_code(input_.key_type, options_.descending)) {
        if (narrow()) out = chunk.other(records.count).keys.slice(0, records.count * native());
        decode(runtime_, chunk.stream(), input_.key_type, options_.descending, records.keys, out);
      }
      const std::uint64_t width = decode_keys ? native() : type_.key_bytes();
      runtime_.copy(chunk.stream(), host_view(at(to.keys, first * width), out.bytes, input_.pageable), out);
    }
    if (to.values != nullptr)
      runtime_.copy(chunk.stream(),
                    host_view(at(to.values, first * type_.value_bytes()), records.values.bytes, input_.pageable),
                    records.values);
  }

  // Every chunkset becomes a run of codes in host memory; then the runs are merged into the output.
  void sort_in_chunksets(std::uint64_t at_once) {
    const Buffer runs = runtime_.allocate(Place::host(), record_bytes(type_, input_.count), "runs");
    const Records all = records_in(runs.view(), type_, input_.count);
    std::vector<HostRun> parts;
    for (std::uint64_t first = 0; first < input_.count; first += at_once) {
      const std::uint64_t count = std::min(at_once, input_.count - first);
      const Records run = all.slice(first, count);
      sort_chunkset(first, count, {run.keys.data, type_.value == ValueWidth::none ? nullptr : run.values.data},
                    /*decode_keys=*/false);
      parts.push_back({run.keys.data, run.values.data, count});
    }
    merge_runs(parts, all);
  }

  void merge_runs(const std::vector<HostRun>& parts, const Records& all) {
    runtime_.set_phase("merge runs");
    const Stream host = runtime_.stream(Place::host(), "merge");
    const bool into_output = output_.keys != nullptr && !narrow();
    const Buffer merged = runtime_.allocate(Place::host(), into_output ? 0 : all.keys.bytes, "merged codes");
    void* codes = into_output ? output_.keys : merged.view().data;
    const Buffer spare_values =
        runtime_.allocate(Place::host(), output_.values == nullptr ? all.values.bytes : 0, "merged values");
    void* values = output_.values == nullptr ? spare_values.view().data : output_.values;
    Operation operation{"multiway merge", {all.keys}, {host_view(codes, all.keys.bytes, false)}, {}, {}};
    if (type_.value != ValueWidth::none) {
      operation.reads.push_back(all.values);
      operation.writes.push_back(host_view(values, all.values.bytes, false));
    }
    if (output_.keys != nullptr && !into_output)
      operation.writes.push_back(host_view(output_.keys, input_.count * native(), false));
    operation.work = {"multiway_merge", input_.count, static_cast<double>(type_.bytes())};
    operation.run = [this, parts, codes, values](void*) {
      multiway_merge(type_, parts, codes, values);
      if (output_.keys != nullptr) decode_on_host(codes);
    };
    runtime_.enqueue(host, std::move(operation));
    runtime_.wait(runtime_.record(host));
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
  RecordType type_;
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
    if (chunk_bytes(runtime.kernels(), plan, type, chunk_capacity(plan, middle)) <= available) low = middle;
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
