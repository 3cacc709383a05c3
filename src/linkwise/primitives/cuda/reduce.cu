// Reductions to few numbers: checksum, order check, histogram, pivot selection.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/segments.hpp"

namespace linkwise::cuda {
namespace {

// A histogram with more counters than this counts in global memory.
constexpr int max_shared_counters = (max_destinations - 1) << 8;
constexpr int default_shared_bytes = 48 << 10;  // of a block, without opting in to more

// Adds the block's sum to *total. All threads of the block take part.
__device__ void add_block_sum(std::uint64_t mine, std::uint64_t* total) {
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
  __shared__ std::uint64_t warp_sums[block_threads / 32];
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint64_t sum = 0;
    for (const std::uint64_t warp_sum : warp_sums) sum += warp_sum;
    atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
  }
}

/// Calls body(key, key before it) for all keys; the first key counts as its own predecessor. A warp loads consecutive
/// vectors of 16 bytes, several of which are in flight before the first is used; the keys before them come from the
/// neighbouring threads.
template <typename Key, typename Body>
__device__ void for_each_key(const Key* keys, std::uint64_t count, Body&& body) {
  constexpr unsigned width = 16 / sizeof(Key), last = width - 1, all = ~0u;
  constexpr int at_once = 4;
  constexpr unsigned keys_of_warp = 32 * at_once * width;
  struct alignas(16) Vector {
    Key key[width];
  };
  const auto misplaced = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(keys) / sizeof(Key) % width);
  const std::uint64_t head = min(std::uint64_t{(width - misplaced) % width}, count);
  const std::uint64_t tiles = (count - head) / keys_of_warp;
  const unsigned lane = threadIdx.x % 32;
  for (std::uint64_t tile = global_thread() / 32; tile < tiles; tile += grid_threads() / 32) {
    const std::uint64_t first = head + tile * keys_of_warp;
    const auto* const from = reinterpret_cast<const Vector*>(keys + first) + lane;
    Vector vector[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) vector[j] = from[32 * j];
    Key before_tile = vector[0].key[0];
    if (lane == 0 && first > 0) before_tile = keys[first - 1];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const Key before = __shfl_up_sync(all, vector[j].key[last], 1);
      body(vector[j].key[0], lane == 0 ? before_tile : before);
#pragma unroll
      for (unsigned k = 1; k < width; ++k) body(vector[j].key[k], vector[j].key[k - 1]);
      before_tile = __shfl_sync(all, vector[j].key[last], 31);
    }
  }
  const std::uint64_t in_tiles = tiles * keys_of_warp;
  for (std::uint64_t i = global_thread(); i < count - in_tiles; i += grid_threads()) {
    const std::uint64_t at = i < head ? i : in_tiles + i;
    body(keys[at], keys[at == 0 ? 0 : at - 1]);
  }
}

/// Calls body(key, key before it, value) for all records, and loads them likewise, one by one.
template <typename Key, typename Value, typename Body>
__device__ void for_each_record(const Key* keys, const Value* values, std::uint64_t count, Body&& body) {
  constexpr int at_once = sizeof(Value) == 16 ? 4 : 8;
  constexpr unsigned records_of_warp = 32 * at_once, all = ~0u;
  const std::uint64_t tiles = count / records_of_warp;
  const unsigned lane = threadIdx.x % 32;
  for (std::uint64_t tile = global_thread() / 32; tile < tiles; tile += grid_threads() / 32) {
    const std::uint64_t first = tile * records_of_warp;
    Key key[at_once];
    Value value[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      key[j] = keys[first + 32 * j + lane];
      value[j] = values[first + 32 * j + lane];
    }
    Key before_tile = key[0];
    if (lane == 0 && first > 0) before_tile = keys[first - 1];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const Key before = __shfl_up_sync(all, key[j], 1);
      body(key[j], lane == 0 ? before_tile : before, value[j]);
      before_tile = __shfl_sync(all, key[j], 31);
    }
  }
  for (std::uint64_t i = tiles * records_of_warp + global_thread(); i < count; i += grid_threads())
    body(keys[i], keys[i == 0 ? 0 : i - 1], values[i]);
}

template <typename Key, typename Value>
__global__ void checksum_kernel(const Key* keys, const Value* values, std::uint64_t count, std::uint64_t* sum) {
  std::uint64_t mine = global_thread() == 0 ? count * constant_hash : 0;
  if constexpr (std::is_same_v<Value, NoValue>)
    for_each_key(keys, count, [&](Key key, Key) { mine += varying_hash(key, NoValue{}); });
  else
    for_each_record(keys, values, count, [&](Key key, Key, const Value& value) { mine += varying_hash(key, value); });
  add_block_sum(mine, sum);
}

template <typename Key, typename Value>
__global__ void check_part_kernel(const Key* keys, const Value* values, std::uint64_t count, KeyClass key_class,
                                  bool descending, PartNumbers* numbers) {
  std::uint64_t sum = global_thread() == 0 ? count * constant_hash : 0;
  std::uint32_t found = 0;  // by one thread, which sees fewer than 2^32 keys
  const auto look = [&](auto is_before) {
    if constexpr (std::is_same_v<Value, NoValue>)
      for_each_key(keys, count, [&](Key key, Key before) {
        found += is_before(key, before) ? 1 : 0;
        sum += varying_hash(key, NoValue{});
      });
    else
      for_each_record(keys, values, count, [&](Key key, Key before, const Value& value) {
        found += is_before(key, before) ? 1 : 0;
        sum += varying_hash(key, value);
      });
  };
  // The kernel would be bound by instructions if the class of the keys were not a constant.
  const auto look_at = [&]<KeyClass known>() {
    const auto rises = [](Key a, Key b) { return encode_bits(a, known, false) < encode_bits(b, known, false); };
    if (descending) look([&](Key key, Key before) { return rises(before, key); });
    else look(rises);
  };
  if (key_class == KeyClass::unsigned_integer) look_at.template operator()<KeyClass::unsigned_integer>();
  else if (key_class == KeyClass::signed_integer) look_at.template operator()<KeyClass::signed_integer>();
  else look_at.template operator()<KeyClass::floating>();
  add_block_sum(sum, &numbers->checksum);
  __syncthreads();  // both sums use the same shared memory
  add_block_sum(found, &numbers->violations);
  if (global_thread() != 0) return;
  numbers->first_key = encode_bits(keys[0], key_class, descending);
  numbers->last_key = encode_bits(keys[count - 1], key_class, descending);
}

template <typename Key>
__global__ void check_order_kernel(const Key* keys, std::uint64_t count, std::uint64_t* violations) {
  std::uint64_t mine = 0;
  for (std::uint64_t i = global_thread() + 1; i < count; i += grid_threads()) mine += keys[i] < keys[i - 1] ? 1 : 0;
  add_block_sum(mine, violations);
}

template <typename Key>
__global__ void histogram_kernel(const Key* keys, std::uint64_t count, BitRange bits,
                                 const __grid_constant__ Prefixes prefixes, std::uint64_t* counts) {
  extern __shared__ unsigned block_counts[];
  __shared__ Key known[max_destinations];
  const int digit_bits = bits.end - bits.begin, digits = 1 << digit_bits;
  const int counters = max(prefixes.count, 1) << digit_bits;
  const bool shared = counters <= max_shared_counters;
  for (int c = threadIdx.x; shared && c < counters; c += blockDim.x) block_counts[c] = 0;
  for (int p = threadIdx.x; p < max_destinations; p += blockDim.x)
    known[p] = p < prefixes.count ? static_cast<Key>(prefixes.value[p]) : static_cast<Key>(~Key{0});
  __syncthreads();
  const auto add = [&](int counter, unsigned many) {
    if (shared) atomicAdd(&block_counts[counter], many);
    else atomicAdd(reinterpret_cast<unsigned long long*>(&counts[counter]), static_cast<unsigned long long>(many));
  };
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const Key key = keys[i];
    int counter = static_cast<int>(key >> bits.begin) & (digits - 1);
    if (prefixes.count > 0) {
      const Key prefix = static_cast<Key>(key >> bits.end);
      int row = 0;
#pragma unroll
      for (int step = max_destinations / 2; step > 0; step /= 2)
        if (known[row + step - 1] < prefix) row += step;
      counter = known[row] == prefix && row < prefixes.count ? counter | row << digit_bits : -1;
    }
    // Where many keys are equal, all lanes of a warp often have the same counter: one atomic then counts them all.
    const unsigned active = __activemask();
    const int leader = __ffs(static_cast<int>(active)) - 1;
    if (__all_sync(active, counter == __shfl_sync(active, counter, leader))) {
      if (counter >= 0 && static_cast<int>(threadIdx.x % 32) == leader) add(counter, __popc(active));
    } else if (counter >= 0) {
      add(counter, 1);
    }
  }
  __syncthreads();
  for (int c = threadIdx.x; shared && c < counters; c += blockDim.x)
    if (block_counts[c] != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&counts[c]), block_counts[c]);
}

template <typename Key>
__global__ void select_pivot_kernel(RawSegments left, RawSegments right, std::uint64_t* pivot) {
  *pivot = leftmost_pivot<Key>(left, right);
}

void clear(std::uint64_t* counters, std::uint64_t count, cudaStream_t stream) {
  check(cudaMemsetAsync(counters, 0, count * sizeof *counters, stream), "clear counters");
}

}  // namespace

KernelList reduce_kernels() {
  KernelList list;
  for (const KeyWidth width : {KeyWidth::k32, KeyWidth::k64})
    with_key(width, [&](auto key) {
      using Key = typename decltype(key)::type;
      list.insert(list.end(), {address(check_order_kernel<Key>), address(histogram_kernel<Key>),
                               address(select_pivot_kernel<Key>)});
      for (const ValueWidth value_width : {ValueWidth::none, ValueWidth::v4, ValueWidth::v8, ValueWidth::v16})
        with_value(value_width, [&](auto value) {
          using Value = typename decltype(value)::type;
          list.insert(list.end(), {address(checksum_kernel<Key, Value>), address(check_part_kernel<Key, Value>)});
        });
    });
  return list;
}

void checksum(cudaStream_t stream, RecordType type, RawRecords records, std::uint64_t count, std::uint64_t* sum) {
  clear(sum, 1, stream);
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    checksum_kernel<Key, Value><<<resident_grid_for<checksum_kernel<Key, Value>>(count), block_threads, 0, stream>>>(
        static_cast<const Key*>(records.keys), static_cast<const Value*>(records.values), count, sum);
  });
  check_launch("checksum");
}

void check_part(cudaStream_t stream, RecordType type, KeyCoding coding, RawRecords records, std::uint64_t count,
                PartNumbers* numbers) {
  check(cudaMemsetAsync(numbers, 0, sizeof *numbers, stream), "clear a part's numbers");
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const unsigned blocks = resident_grid_for<check_part_kernel<Key, Value>>(count);
    check_part_kernel<Key, Value><<<blocks, block_threads, 0, stream>>>(
        static_cast<const Key*>(records.keys), static_cast<const Value*>(records.values), count, key_class(coding.type),
        coding.descending, numbers);
  });
  check_launch("check part");
}

void check_order(cudaStream_t stream, KeyWidth width, const void* keys, std::uint64_t count,
                 std::uint64_t* violations) {
  clear(violations, 1, stream);
  with_key(width, [&](auto key) {
    using Key = typename decltype(key)::type;
    check_order_kernel<Key>
        <<<grid_for(count), block_threads, 0, stream>>>(static_cast<const Key*>(keys), count, violations);
  });
  check_launch("check order");
}

void histogram(cudaStream_t stream, KeyWidth width, const void* keys, std::uint64_t count, BitRange bits,
               const Prefixes& prefixes, std::uint64_t* counts) {
  const int counters = std::max(prefixes.count, 1) << (bits.end - bits.begin);
  clear(counts, counters, stream);
  const int shared_bytes = counters <= max_shared_counters ? 4 * counters : 0;
  with_key(width, [&](auto key) {
    using Key = typename decltype(key)::type;
    if (shared_bytes > default_shared_bytes)
      check(cudaFuncSetAttribute(histogram_kernel<Key>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 4 * max_shared_counters),
            "histogram");
    // Each block adds its counters to the global ones: the more counters there are, the fewer blocks are worthwhile.
    const unsigned blocks =
        counters > 4096 ? std::min(grid_for(count), 3u * current_multiprocessors()) : grid_for(count);
    histogram_kernel<Key>
        <<<blocks, block_threads, shared_bytes, stream>>>(static_cast<const Key*>(keys), count, bits, prefixes, counts);
  });
  check_launch("histogram");
}

void select_pivot(cudaStream_t stream, KeyWidth width, const RawSegments& left, const RawSegments& right,
                  std::uint64_t* pivot) {
  with_key(width, [&](auto key) {
    select_pivot_kernel<typename decltype(key)::type><<<1, 1, 0, stream>>>(left, right, pivot);
  });
  check_launch("select pivot");
}

}  // namespace linkwise::cuda
