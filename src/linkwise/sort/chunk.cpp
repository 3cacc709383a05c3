#include "linkwise/sort/chunk.hpp"

#include <algorithm>
#include <cmath>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/sort/exchange/msb_cuts.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/strategies/bucket_radix_sort.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t counter_bytes = 64 * 8;

std::uint64_t scratch_bytes(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t capacity) {
  const std::uint64_t bytes = local_sort_scratch_bytes(kernels, type, capacity);
  if (plan.gpus.size() < 2) return bytes;
  if (plan.strategy == SortStrategy::p2p_merge)
    return std::max(bytes, kernels.merge_scratch_bytes(type, capacity / 2, capacity - capacity / 2));
  return std::max(bytes, kernels.partition_scratch_bytes(type, capacity, static_cast<int>(plan.gpus.size())));
}

}  // namespace

Chunk::Chunk(Runtime& runtime, const SortPlan& plan, int gpu, RecordType type, std::uint64_t capacity)
    : gpu_(gpu),
      type_(type),
      capacity_(capacity),
      stream_(runtime.stream(Place::gpu(gpu), "compute")),
      buffers_{runtime.allocate(Place::gpu(gpu), record_bytes(type, capacity), "primary records"),
               runtime.allocate(Place::gpu(gpu), record_bytes(type, capacity), "secondary records")},
      scratch_(runtime.allocate(Place::gpu(gpu), scratch_bytes(runtime.kernels(), plan, type, capacity), "scratch")),
      counters_(runtime.allocate(Place::gpu(gpu), counter_bytes, "counters")) {}

Records Chunk::other(std::uint64_t count) const {
  if (count > capacity_)
    throw OutOfMemoryError("GPU " + std::to_string(gpu_) + " would receive " + std::to_string(count) +
                           " records and has room for " + std::to_string(capacity_) + "; raise the plan's slack");
  return records_in(buffers_[1 - current_].view(), type_, count);
}

Buffer Chunk::take(Runtime& runtime) {
  runtime.retire(std::move(buffers_[1 - current_]));
  runtime.retire(std::move(scratch_));
  runtime.retire(std::move(counters_));
  return std::move(buffers_[current_]);
}

std::vector<Stream> streams_of(const std::vector<Chunk>& chunks) {
  std::vector<Stream> streams;
  for (const Chunk& chunk : chunks) streams.push_back(chunk.stream());
  return streams;
}

std::vector<Records> records_of(const std::vector<Chunk>& chunks) {
  std::vector<Records> records;
  for (const Chunk& chunk : chunks) records.push_back(chunk.records());
  return records;
}

bool chunks_suit_msd_sort(Runtime& runtime, const std::vector<Chunk>& chunks) {
  std::vector<SampleSource> sources;
  std::uint64_t total = 0;
  for (const Chunk& chunk : chunks) {
    sources.push_back({chunk.stream(), chunk.records().keys});
    total += chunk.count();
  }
  const RecordType type = chunks.front().type();
  return keys_suit_msd_sort(runtime, code_type(type.key), /*descending=*/false, std::move(sources), type,
                            total / chunks.size());
}

void sort_locally(Runtime& runtime, Chunk& chunk, BitRange bits, bool by_msd) {
  const Records sorted = sort_locally(runtime, chunk.stream(), chunk.records(), chunk.other(chunk.count()),
                                      {bits, by_msd}, chunk.scratch());
  if (sorted.keys.data != chunk.records().keys.data) chunk.flip(chunk.count());
}

std::uint64_t chunk_bytes(const Kernels& kernels, const SortPlan& plan, RecordType type, std::uint64_t capacity) {
  const bool splits = plan.strategy == SortStrategy::radix && plan.gpus.size() > 1;
  const auto parts = static_cast<int>(plan.gpus.size());
  const std::uint64_t cuts = is_in_buckets(plan) ? bucket_bytes()
                             : splits ? sample_bytes(kernels, type.key, plan.samples) + msb_bytes(plan, parts)
                                      : 0;
  const auto rounded = [](std::uint64_t bytes) { return align_up(bytes, device_alignment); };
  return 2 * rounded(record_bytes(type, capacity)) + rounded(scratch_bytes(kernels, plan, type, capacity)) +
         counter_bytes + bytes_to_look_at_keys(kernels, type) + cuts;
}

std::uint64_t chunk_capacity(const SortPlan& plan, std::uint64_t records) {
  const std::uint64_t gpus = plan.gpus.size();
  const std::uint64_t share = (records + gpus - 1) / gpus;
  if (gpus == 1 || plan.strategy == SortStrategy::p2p_merge) return share;
  // If every record is a sample, the cuts are exact; the constant covers small sizes beyond that.
  return std::min(records, share + static_cast<std::uint64_t>(std::ceil(plan.slack * static_cast<double>(share))) + 64);
}

}  // namespace linkwise
