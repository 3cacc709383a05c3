// Partitions spans of records with values by their buckets' digits, in order: records with equal digits stay as they
// were.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/stable_tile.cuh"

namespace linkwise::cuda::msd {

template <typename Key, typename Value, bool is_shared>
class StablePartition {
  using Memory = StableTileMemory<Key, Value>;
  using Tile = StableTile<Key, Value, is_shared>;

 public:
  __device__ StablePartition(Memory& memory, const RecordColumns<Key, Value>& columns, const State& state,
                             const Cell* table)
      : memory_(memory),
        columns_(columns),
        state_(state),
        table_(table),
        source_(memory.span, state),
        keys_(memory.keys),
        values_(memory.values) {}

  /// Partitions the block's share of a level's spans. A span's keys are loaded while the values of the one before it
  /// are stored, and its values while its keys are ordered and stored.
  __device__ __forceinline__ void run(int now, std::uint32_t spans) {
    if (blockIdx.x >= spans) return end();
    Span span = source_.span_at(now, blockIdx.x, spans), next = source_.span_at(now, blockIdx.x + gridDim.x, spans);
    std::uint32_t taken = 0;
    if (threadIdx.x == 0) {
      taken = source_.take();
      memory_.span.checksum = 0;
      memory_.doubtful = no_span;
    }
    begin(now, span);
    for (int slot = 0;; slot = 1 - slot) {
      source_.wait_for_words();
      __syncthreads();
      if (threadIdx.x == 0) memory_.span.taken = taken;
      const Bucket &bucket = memory_.span.bucket[slot], &next_bucket = memory_.span.bucket[1 - slot];
      source_.begin_bucket(1 - slot, now, next);
      values_.begin(columns_.values_at(bucket.place), columns_.count, span.begin, span.count);
      keys_.wait();
      Tile tile(memory_, columns_, state_.destinations, span, bucket, keys_.elements(), values_.elements());
      const Digits<Key> digit(bucket, *state_.root, table_, true);
      // The checksum is of the first bucket, which has all records.
      const bool moves = is_shared || is_divided(bucket, digit),
                 is_summed = columns_.checksum != nullptr && bucket.is_root;
      if (moves) {
        if (bucket.place == in_input) tile.encode();
        source_.find_starts(span, bucket);
        if (digit.is_plain()) tile.order(digit.plain());
        else tile.order(digit);
      }
      if (is_summed) {
        values_.wait();
        add_hashes_of_warp(memory_.span.checksum, tile.sum_of_hashes(moves));
      }
      source_.wait_for_words();
      if (!moves) __syncthreads();
      else if (!tile.store_keys() || state_.doubts_atomics) add_doubtful(span);
      if (next.count > 0) {
        source_.begin_counters(next, next_bucket);
        keys_.begin(columns_.keys_at(next_bucket.place), columns_.count, next.begin, next.count);
      }
      Tile::clear_counters(memory_);
      const Span later = source_.span_at(now, memory_.span.taken, spans);
      if (threadIdx.x == 0) taken = source_.take();
      if (!is_summed) values_.wait();
      if (moves) tile.store_values();
      if (next.count == 0) break;
      span = next;
      next = later;
    }
    __syncthreads();
    for (std::uint32_t i = memory_.doubtful; i != no_span; i = state_.doubtful_spans[i].before)
      partition_by_votes(now, state_.doubtful_spans[i].span);
    end();
    if (threadIdx.x == 0) publish_checksum(columns_.checksum, memory_.span.checksum);
  }

 private:
  // Begins to load what a first span needs, into clear memory.
  __device__ __forceinline__ void begin(int now, const Span& span) {
    source_.begin_bucket(0, now, span);
    Tile::clear_counters(memory_);
    source_.wait_for_words();
    __syncthreads();
    source_.begin_counters(span, memory_.span.bucket[0]);
    keys_.begin(columns_.keys_at(memory_.span.bucket[0].place), columns_.count, span.begin, span.count);
  }
  __device__ __forceinline__ void end() {
    source_.wait_for_words();
    keys_.end();
    values_.end();
  }

  __device__ __forceinline__ void add_doubtful(const Span& span) {
    if (threadIdx.x != 0) return;
    const std::uint32_t i = atomicAdd(&state_.counters->doubtful_spans, 1u);
    state_.doubtful_spans[i] = {span, memory_.doubtful};
    memory_.doubtful = i;
  }
  // Writes the same records to the same places, in order.
  __device__ void partition_by_votes(int now, const Span& span) {
    __syncthreads();
    begin(now, span);
    source_.wait_for_words();
    __syncthreads();
    const Bucket& bucket = memory_.span.bucket[0];
    values_.begin(columns_.values_at(bucket.place), columns_.count, span.begin, span.count);
    keys_.wait();
    values_.wait();
    Tile tile(memory_, columns_, state_.destinations, span, bucket, keys_.elements(), values_.elements());
    if (bucket.place == in_input) tile.encode();
    source_.find_starts(span, bucket);
    tile.order_by_votes(Digits<Key>(bucket, *state_.root, table_, true));
    tile.store_keys();
    tile.store_values();
  }

  Memory& memory_;
  const RecordColumns<Key, Value>& columns_;
  const State& state_;
  const Cell* table_;
  SpanSource<is_shared> source_;
  RunLoad<Key, tile_records<Key, Value>> keys_;
  RunLoad<Value, tile_records<Key, Value>> values_;
};

}  // namespace linkwise::cuda::msd
