#include "linkwise/sort/host_sort.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "linkwise/error.hpp"
#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/largest_that_fits.hpp"
#include "linkwise/sort/merge/gpu_merge.hpp"
#include "linkwise/sort/merge/run_merge.hpp"
#include "linkwise/sort/sort_chunks.hpp"
#include "linkwise/sort/strategies/cpu_sort.hpp"
#include "linkwise/sort/strategies/het_sort.hpp"
#include "linkwise/sort/strategies/streamed_radix_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

bool is_streamed(const SortPlan& plan) {
  return plan.strategy == SortStrategy::radix && plan.streamed && !is_in_buckets(plan);
}

// Bytes that each GPU needs to sort that many records at once.
std::uint64_t bytes_per_gpu(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t records,
                            bool is_narrow) {
  if (plan.strategy == SortStrategy::het) return het_bytes_per_gpu(kernels, plan, type, records, is_narrow);
  return is_streamed(plan) ? StreamedRadixSort::bytes_per_gpu(kernels, plan, type, records)
                           : chunk_bytes(kernels, plan, type, chunk_capacity(plan, records));
}

// Reserves memory for the relay rings and the sort in one allocation. The rings come first, as they live longer.
Router make_router(Runtime& runtime, const SortPlan& plan, const HostColumns& input, std::uint64_t records) {
  const RecordType type{key_width(input.key_type), input.value_width};
  for (const int gpu : plan.gpus) {
    const std::uint64_t rings = Router::ring_bytes(plan.paths, plan.relay_bytes, gpu);
    if (rings == 0) continue;
    const std::uint64_t bytes = bytes_per_gpu(runtime.kernels(), plan, type, records, is_narrow(input.key_type));
    runtime.reserve(Place::gpu(gpu), rings + bytes + bytes / 1000);  // a part of records_that_fit's margin
  }
  return {runtime, plan.paths, plan.relay_bytes};
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
        type_{key_width(input.key_type), input.value_width},
        at_once_(plan.chunkset_records == 0 ? input.count : std::min(input.count, plan.chunkset_records)),
        router_(make_router(runtime, plan, input, at_once_)),
        io_(runtime, router_, input, options) {}

  void run() {
    if (plan_.strategy == SortStrategy::cpu) return cpu_sort(runtime_, plan_, input_, output_, options_);
    if (plan_.strategy == SortStrategy::het) return het_sort(runtime_, plan_, io_, input_.count, output_, options_);
    make_streamed();
    if (at_once_ >= input_.count) sort_runs(std::vector<SortRun>{{0, input_.count, output_}}, /*as_codes=*/false);
    else sort_in_chunksets();
    runtime_.synchronize();
  }

  // Makes only the runs, for the strategies that have any.
  std::vector<Records> run_without_merge(const MemoryView& memory) {
    if (plan_.strategy == SortStrategy::het)
      return het_sort_into_runs(runtime_, plan_, io_, input_.count, memory, options_);
    make_streamed();
    std::vector<Records> sorted = sort_runs_into(memory);
    runtime_.synchronize();
    return sorted;
  }

 private:
  void make_streamed() {
    if (is_streamed(plan_)) streamed_ = std::make_unique<StreamedRadixSort>(runtime_, plan_, io_, at_once_);
  }

  // Sorts every run into its output, as native keys or as codes.
  void sort_runs(std::span<const SortRun> runs, bool as_codes) {
    if (streamed_) {
      runs = runs.subspan(streamed_->sort(input_.key_type, runs, as_codes, options_));
      checksum_ += streamed_->result_checksum();
      if (runs.empty()) return;
      streamed_.reset();  // the samples misjudged a bucket: go on with a sort that knows the exact counts
    }
    make_chunks();
    for (std::size_t r = 0; r < runs.size(); ++r)
      sort_run(runs[r], r + 1 < runs.size() ? &runs[r + 1] : nullptr, as_codes);
  }

  // One step after the other: copies a run in, sorts it, copies it out. Meanwhile the next run is copied in, if it
  // can be (join25 §3.1.3).
  void sort_run(const SortRun& run, const SortRun* next, bool as_codes) {
    const HostOutputs& to = run.output;
    if (arrived_.empty()) {
      runtime_.set_phase("HtoD");
      for (std::size_t g = 0; g < chunks_.size(); ++g) {
        const Rows rows = rows_of(run, g);
        chunks_[g].set_count(rows.count());
        io_.copy_in(chunks_[g].stream(), rows.begin, chunks_[g].records(), native_bytes_beside(chunks_[g]));
      }
    }
    for (std::size_t g = 0; g < chunks_.size(); ++g) {
      if (!arrived_.empty()) {
        chunks_[g].flip(rows_of(run, g).count());
        runtime_.wait(chunks_[g].stream(), arrived_[g]);
      }
      io_.encode_rows(chunks_[g].stream(), rows_of(run, g).begin, chunks_[g].records(),
                      native_bytes_beside(chunks_[g]));
    }
    arrived_.clear();
    SortVerifier verifier(runtime_, streams_of(chunks_), own_codes(type_.key));
    if (options_.verify) {
      runtime_.set_phase("verify input");
      verifier.before(records_of(chunks_));
    }
    sort_chunks(runtime_, router_, plan_, chunks_, options_.expected_order);
    if (options_.verify) {
      runtime_.set_phase("verify");
      checksum_ += verifier.check(records_of(chunks_));
    }
    if (next != nullptr && as_codes && !io_.is_narrow()) copy_next_in(*next);
    runtime_.set_phase("DtoH");
    std::uint64_t row = 0;
    for (const Chunk& chunk : chunks_) {
      // Copy finished parts out while the rest is sorted. Verification has waited for all of it.
      const Stream out = chunk.finished().empty() ? chunk.stream() : runtime_.stream(chunk.place(), "out");
      if (chunk.finished().empty()) copy_out(chunk, out, {0, chunk.count(), {}}, row, to, as_codes);
      for (const Chunk::Finished& part : chunk.finished()) {
        runtime_.wait(out, part.done);
        copy_out(chunk, out, part, row, to, as_codes);
      }
      row += chunk.count();
    }
    for (const Chunk& chunk : chunks_) {
      if (!chunk.finished().empty()) runtime_.wait(runtime_.record(runtime_.stream(chunk.place(), "out")));
      runtime_.wait(runtime_.record(chunk.stream()));
    }
  }

  struct Rows {
    std::uint64_t begin, end;
    [[nodiscard]] std::uint64_t count() const { return end - begin; }
  };
  // The rows of a run that go to GPU `g`.
  [[nodiscard]] Rows rows_of(const SortRun& run, std::uint64_t g) const {
    const std::uint64_t gpus = chunks_.size();
    return {run.first + run.count * g / gpus, run.first + run.count * (g + 1) / gpus};
  }

  // Copies the next run into the buffers that the sort no longer uses.
  void copy_next_in(const SortRun& next) {
    runtime_.set_phase("HtoD");
    for (std::size_t g = 0; g < chunks_.size(); ++g) {
      const Stream in = runtime_.stream(chunks_[g].place(), "in");
      const Rows rows = rows_of(next, g);
      runtime_.wait(in, runtime_.record(chunks_[g].stream()));
      io_.copy_in(in, rows.begin, chunks_[g].other(rows.count()), {});
      arrived_.push_back(runtime_.record(in));
    }
  }

  // Copies out a part of a chunk. The chunk's first record is row number `row` of the output.
  void copy_out(const Chunk& chunk, Stream stream, const Chunk::Finished& part, std::uint64_t row,
                const HostOutputs& to, bool as_codes) {
    const std::uint64_t width = io_.native_key_bytes();
    const Records records = chunk.records().slice(part.first, part.count);
    const bool decodes = !as_codes && to.keys != nullptr;
    const MemoryView beside = native_bytes_beside(chunk).slice(part.first * width, part.count * width);
    const MemoryView keys = decodes ? io_.decode_keys(stream, records, beside) : records.keys;
    io_.copy_out(stream, row + part.first, records, keys, as_codes ? type_.key_bytes() : width, to);
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
    const Buffer memory = runtime_.allocate(Place::host(), record_bytes(type_, input_.count), "runs");
    const std::vector<Records> sorted = sort_runs_into(memory.view());
    runtime_.set_phase("merge runs");
    if (!plan_.merge_on_gpus) return merge_into_output(runtime_, io_, sorted, output_);
    runtime_.synchronize();
    streamed_.reset();
    chunks_.clear();
    gpu_merge(runtime_, plan_, io_, sorted, output_,
              bytes_per_gpu(runtime_.kernels(), plan_, type_, at_once_, io_.is_narrow()), options_.verify, checksum_);
  }

  std::vector<Records> sort_runs_into(const MemoryView& memory) {
    const Records all = records_in(memory, type_, input_.count);
    std::vector<Records> sorted;
    std::vector<SortRun> runs;
    for (std::uint64_t first = 0; first < input_.count; first += at_once_) {
      const Records& run = sorted.emplace_back(all.slice(first, std::min(at_once_, input_.count - first)));
      runs.push_back({first, run.count, {run.keys.data, run.values.data}});
    }
    sort_runs(runs, /*as_codes=*/true);
    return sorted;
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  const HostColumns& input_;
  const HostOutputs& output_;
  const SortOptions& options_;
  RecordType type_;
  std::uint64_t at_once_;
  Router router_;
  HostIo io_;
  std::uint64_t checksum_ = 0;  // sum over the runs
  std::unique_ptr<StreamedRadixSort> streamed_;
  std::vector<Chunk> chunks_;
  std::vector<Event> arrived_;  // the next run is in each chunk's other buffer
};

}  // namespace

std::uint64_t records_that_fit(Runtime& runtime, const SortPlan& plan, RecordType type, bool is_narrow) {
  if (plan.strategy == SortStrategy::cpu) return std::numeric_limits<std::uint64_t>::max();
  check_gpus(runtime.machine(), plan);
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  for (const int gpu : plan.gpus) {
    const std::uint64_t of_gpu = runtime.available(Place::gpu(gpu));
    available = std::min(available, of_gpu - std::min(of_gpu, Router::ring_bytes(plan.paths, plan.relay_bytes, gpu)));
  }
  // An eighth of a percent is left for verification counters and rounding.
  available -= available / 800;
  const std::uint64_t too_many = available / type.key_bytes() * plan.gpus.size() + 1;
  const std::uint64_t fitting = largest_that_fits(too_many, [&](std::uint64_t records) {
    return bytes_per_gpu(runtime.kernels(), plan, type, records, is_narrow) <= available;
  });
  if (fitting < 1024)
    throw OutOfMemoryError("the GPUs offer " + std::to_string(available) +
                           " bytes each, too few to sort anything; raise memory_limit");
  return fitting;
}

void sort_columns(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                  const SortOptions& options) {
  if (plan.strategy != SortStrategy::cpu) check_gpus(runtime.machine(), plan);
  if (input.count == 0) return;
  run_or_abandon(runtime, [&] {
    HostSort(runtime, plan, input, output, options).run();
    hand_back(runtime, views_of(input));
    hand_back(runtime, views_of(output, input, static_cast<std::uint64_t>(native_bytes(input.key_type))));
  });
}

std::vector<Records> sort_into_runs(Runtime& runtime, const SortPlan& plan, const HostColumns& input,
                                    const MemoryView& memory, const SortOptions& options) {
  if (plan.strategy == SortStrategy::cpu)
    throw UsageError("radix, p2p_merge and het make runs; " + to_string(plan.strategy) + " does not");
  check_gpus(runtime.machine(), plan);
  std::vector<Records> runs;
  if (input.count == 0) return runs;
  run_or_abandon(runtime, [&] {
    runs = HostSort(runtime, plan, input, {}, options).run_without_merge(memory);
    hand_back(runtime, views_of(input));
    hand_back(runtime, std::span(&memory, 1));
  });
  return runs;
}

SortReport sort_host(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
                     const SortOptions& options) {
  runtime.clear_timeline();
  sort_columns(runtime, plan, input, output, options);
  return report_of(runtime, options);
}

}  // namespace linkwise
