// Radix sort by the most significant digits first: the local sort takes most of a sort's time on the GPUs (sort22
// §5.1). Finishing buckets in shared memory as soon as they fit is the idea of Stehle and Jacobsen (SIGMOD 2017,
// "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs"); digits from a sample, levels that need no host, and bins
// are ours.
#pragma once

#include <array>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/msd_sort/levels.cuh"
#include "linkwise/primitives/cuda/msd_sort/root.cuh"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise::cuda::msd {

constexpr int most_devices = 64;

inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "ask for the current device");
  return device;
}

/// Blocks of a kernel that fit on the device together.
template <typename Kernel>
std::uint32_t resident_blocks(Kernel* kernel, int threads, std::size_t shared_bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "allow a block's shared memory");
  int each = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared_bytes), "ask for occupancy");
  return static_cast<std::uint32_t>(each * current_multiprocessors());
}

template <typename Key, typename Value>
struct Launches {
  std::uint32_t count_blocks, level_blocks, shared_blocks, left_blocks, finish_blocks, hard_blocks;

  static Launches of_this_device() {
    return {
        resident_blocks(count_spans<Key>, count_threads, sizeof(SpanCountMemory<Key>)),
        resident_blocks(partition_spans<Key, Value>, level_threads, sizeof(LevelMemory<Key, Value>)),
        resident_blocks(partition_spans<Key, Value, true>, level_threads, sizeof(LevelMemory<Key, Value>)),
        resident_blocks(sort_what_is_left<Key, Value>, level_threads, sizeof(LeftMemory<Key, Value>)),
        resident_blocks(finish<Key, Value>, finish_threads, sizeof(typename UsualItemSort<Key, Value>::Memory)),
        resident_blocks(finish_hard<Key, Value>, finish_threads, sizeof(typename HardItemSort<Key, Value>::Memory))};
  }

  /// For the current device; the first call also allows its kernels the shared memory that they need.
  static const Launches& get() {
    static std::array<std::once_flag, most_devices> once;
    static std::array<Launches, most_devices> launches;
    const auto device = static_cast<std::size_t>(current_device());
    std::call_once(once.at(device), [&] { launches.at(device) = of_this_device(); });
    return launches.at(device);
  }
};

/// Bytes of shared memory that a block needs at most.
template <typename Key, typename Value>
constexpr std::size_t block_bytes = std::max(sizeof(LevelMemory<Key, Value>), sizeof(LeftMemory<Key, Value>));

/// Whether every device supports bulk copies and has enough shared memory per block. Devices before Hopper, and small
/// ones since, do not. All devices must, because the caller has not chosen one yet.
template <typename Key, typename Value>
bool fits_every_device() {
  static const bool fits = [] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "count devices");
    const int bytes = least_of_devices(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return devices <= most_devices && least_of_devices(cudaDevAttrComputeCapabilityMajor) >= 9 &&
           block_bytes<Key, Value> <= static_cast<std::size_t>(bytes);
  }();
  return fits;
}

template <typename Key>
Columns<Key> keys_of(std::array<RawRecords, 3> records, KeyCoding coding, std::uint64_t count,
                     std::uint64_t* checksum = nullptr) {
  const auto keys = [&](Place place) { return static_cast<Key*>(records.at(place).keys); };
  return {{keys(in_input), keys(in_result), keys(in_room)},
          key_class(coding.type),
          coding.descending,
          is_own_code(coding.type, coding.descending),
          checksum,
          count};
}
template <typename Key, typename Value>
ColumnsOf<Key, Value> columns_of(std::array<RawRecords, 3> records, KeyCoding coding, std::uint64_t count,
                                 std::uint64_t* checksum) {
  const Columns<Key> keys = keys_of<Key>(records, coding, count, checksum);
  if constexpr (has_bytes<Value>) {
    const auto values = [&](Place place) { return static_cast<Value*>(records.at(place).values); };
    return {keys, {values(in_input), values(in_result), values(in_room)}};
  } else return keys;
}

inline std::uint64_t scratch_bytes(const Extent& extent) {
  State state{};
  return lay_out(nullptr, extent, state);
}
inline State state_in(void* scratch, const Extent& extent) {
  State state{};
  lay_out(scratch, extent, state);
  state.doubts_atomics = std::getenv("LINKWISE_DOUBT_ATOMICS") != nullptr;
  return state;
}

/// Prepares `sort` of the same keys and scratch, and estimates the distribution of the keys.
template <typename Key>
void look(cudaStream_t stream, RawRecords input, KeyCoding coding, const Extent& extent, SortBuffers buffers,
          void* scratch, KeySpread* spread) {
  const State state = state_in(scratch, extent);
  const double parts = static_cast<double>(extent.count) / (planned_fill * extent.capacity);
  const bool is_one_level = parts <= root_digits;
  // Records with values fit fewer to an item: more digits in the first level leave the second some to spare.
  const double of_root = is_one_level ? parts : (extent.is_stable ? 1.2 : 1.0) * std::sqrt(parts);
  const auto digits = static_cast<std::uint32_t>(std::min(std::ceil(of_root), double{root_digits}));
  const auto cuts = static_cast<std::uint32_t>(std::ceil(is_one_level ? 1 : parts / digits));
  // The first level must not write onto the input; of two levels, the second ends in the result if possible.
  const bool to_result =
      buffers != SortBuffers::result_is_input && (is_one_level || buffers == SortBuffers::room_is_input);
  const Columns<Key> keys = keys_of<Key>({input, {}, {}}, coding, extent.count);
  const RawSegments all{1, {input.keys}, {extent.count}};
  look_at_sample<<<1, sample_threads, 0, stream>>>(keys, sampled(all, extent.count),
                                                   static_cast<std::uint32_t>(extent.count), WantedDigits{digits, cuts},
                                                   to_result ? in_result : in_room, state, spread);
  check_launch("look at a sample");
}

/// Counts the digits of a level's buckets, and turns the counters into places.
template <typename Key, typename Value>
void count_level(cudaStream_t stream, const Columns<Key>& keys, const State& state, int now) {
  const auto& launches = Launches<Key, Value>::get();
  const std::uint32_t blocks = std::min(launches.level_blocks, most_blocks);
  count_spans<Key><<<launches.count_blocks, count_threads, sizeof(SpanCountMemory<Key>), stream>>>(keys, state, now);
  sum_counters<<<blocks, level_threads, 0, stream>>>(state, now);
  scan_counters<<<blocks, level_threads, 0, stream>>>(state, now);
  check_launch("count a level");
}

/// Lists the parts of a level's counted buckets: items, and buckets of the next level.
template <typename Key, typename Value>
void split_level(cudaStream_t stream, const State& state, int now) {
  const std::uint32_t blocks = std::min(Launches<Key, Value>::get().level_blocks, most_blocks);
  split_buckets<Key><<<blocks, level_threads, 0, stream>>>(state, now);
  check_launch("split a level");
}

/// Sorts the buckets of a level, and all listed items.
template <typename Key, typename Value>
void sort_from_level(cudaStream_t stream, int level, ColumnsOf<Key, Value> columns, State state) {
  const auto& launches = Launches<Key, Value>::get();
  const std::uint32_t blocks = std::min(launches.level_blocks, most_blocks);
  for (; level < usual_levels; ++level) {
    const int now = level % 2;
    count_level<Key, Value>(stream, columns, state, now);
    split_level<Key, Value>(stream, state, now);
    partition_spans<Key, Value>
        <<<blocks, level_threads, sizeof(LevelMemory<Key, Value>), stream>>>(columns, state, now);
    check_launch("partition a level");
  }
  const std::size_t finish_bytes = sizeof(typename UsualItemSort<Key, Value>::Memory);
  const std::size_t hard_bytes = sizeof(typename HardItemSort<Key, Value>::Memory);
  finish<Key, Value><<<launches.finish_blocks, finish_threads, finish_bytes, stream>>>(columns, state);
  finish_hard<Key, Value><<<launches.hard_blocks, finish_threads, hard_bytes, stream>>>(columns, state);
  check_launch("finish");
  int now = usual_levels % 2;
  void* arguments[] = {&columns, &state, &now};
  check(cudaLaunchCooperativeKernel(sort_what_is_left<Key, Value>, std::min(launches.left_blocks, blocks),
                                    level_threads, arguments, sizeof(LeftMemory<Key, Value>), stream),
        "sort what is left");
}

inline void clear_checksum(cudaStream_t stream, std::uint64_t* checksum) {
  if (checksum != nullptr) check(cudaMemsetAsync(checksum, 0, sizeof *checksum, stream), "clear the checksum");
}

/// Call after `look`.
template <typename Key, typename Value>
void sort(cudaStream_t stream, const ColumnsOf<Key, Value>& columns, void* scratch) {
  clear_checksum(stream, columns.checksum);
  sort_from_level<Key, Value>(stream, 0, columns, state_in(scratch, extent_of<Key, Value>(columns.count)));
}

template <typename Key, typename Value>
std::vector<const void*> kernels() {
  constexpr std::size_t shared_on_hopper = 227 << 10;  // bytes that a block may have
  static_assert(block_bytes<Key, Value> <= shared_on_hopper);
  return {address(partition_spans<Key, Value>), address(partition_spans<Key, Value, true>), address(finish<Key, Value>),
          address(finish_hard<Key, Value>), address(sort_what_is_left<Key, Value>)};
}

}  // namespace linkwise::cuda::msd
