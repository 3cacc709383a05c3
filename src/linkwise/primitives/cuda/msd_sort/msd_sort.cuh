// Radix sort by the most significant digits first: the local sort takes most of a sort's time on the GPUs (sort22
// §5.1). Finishing buckets in shared memory as soon as they fit is the idea of Stehle and Jacobsen (SIGMOD 2017,
// "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs"); digits from a sample, levels that need no host, and bins
// are ours.
#pragma once

#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/msd_sort/levels.cuh"
#include "linkwise/primitives/cuda/msd_sort/paged_partition.cuh"
#include "linkwise/primitives/cuda/msd_sort/root.cuh"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise::cuda::msd {

constexpr int most_devices = 64;

inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "ask for the current device");
  return device;
}

/// Blocks of a kernel that fit on the current device together. The first call for a device also allows the kernel the
/// shared memory that it needs.
template <auto* kernel>
std::uint32_t resident_blocks(int threads, std::size_t shared_bytes) {
  static std::array<std::once_flag, most_devices> once;
  static std::array<std::uint32_t, most_devices> blocks;
  const auto device = static_cast<std::size_t>(current_device());
  std::call_once(once.at(device), [&] {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          "allow a block's shared memory");
    int each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared_bytes), "ask for occupancy");
    blocks.at(device) = static_cast<std::uint32_t>(each * current_multiprocessors());
  });
  return blocks.at(device);
}
/// Of a level's kernels except the counting one.
template <typename Key, typename Value, Way way = Way::usual>
std::uint32_t level_blocks() {
  return std::min(
      resident_blocks<partition_spans<Key, Value, way>>(level_threads, sizeof(LevelMemory<Key, Value, way>)),
      most_blocks);
}

/// Bytes of shared memory that a block needs at most.
template <typename Key, typename Value, Way way = Way::usual>
constexpr std::size_t block_bytes = std::max(sizeof(LevelMemory<Key, Value, way>), sizeof(LeftMemory<Key, Value, way>));

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
  const WantedDigits usual = wanted_digits(extent), narrow = wanted_narrow_digits(extent);
  const bool is_one_level = usual.cuts == 1;
  // The first level must not write onto the input; of two levels, the second ends in the result if possible.
  const bool to_result =
      buffers != SortBuffers::result_is_input && (is_one_level || buffers == SortBuffers::room_is_input);
  const Columns<Key> keys = keys_of<Key>({input, {}, {}}, coding, extent.count);
  const RawSegments all{1, {input.keys}, {extent.count}};
  look_at_sample<<<1, sample_threads, 0, stream>>>(keys, sampled(all, extent.count),
                                                   static_cast<std::uint32_t>(extent.count), usual, narrow,
                                                   to_result ? in_result : in_room, state, spread);
  check_launch("look at a sample");
}

template <typename Key, Way way>
void launch_count(cudaStream_t stream, const Columns<Key>& keys, const State& state, int level) {
  constexpr std::size_t bytes = sizeof(SpanCountMemory<Key, way>);
  const std::uint32_t blocks = resident_blocks<count_spans<Key, way>>(count_threads, bytes);
  count_spans<Key, way><<<blocks, count_threads, bytes, stream>>>(keys, state, level);
}
/// Counts the digits of a level's buckets, and turns the counters into places.
template <typename Key, typename Value>
void count_level(cudaStream_t stream, const Columns<Key>& keys, const State& state, int level) {
  launch_count<Key, Way::usual>(stream, keys, state, level);
  if constexpr (can_be_narrow<Key, Value>)
    if (level > 0 && may_be_narrow(state)) launch_count<Key, Way::narrow>(stream, keys, state, level);
  const std::uint32_t blocks = level_blocks<Key, Value>();
  sum_counters<<<blocks, level_threads, 0, stream>>>(state, level % 2);
  scan_counters<<<blocks, level_threads, 0, stream>>>(state, level % 2);
  check_launch("count a level");
}

/// Lists the parts of a level's counted buckets: items, and buckets of the next level.
template <typename Key, typename Value>
void split_level(cudaStream_t stream, const State& state, int level) {
  split_buckets<Key><<<level_blocks<Key, Value>(), level_threads, 0, stream>>>(state, level % 2);
  check_launch("split a level");
}

template <typename Key, typename Value, Way way>
void launch_partition(cudaStream_t stream, const ColumnsOf<Key, Value>& columns, const State& state, int level) {
  constexpr std::size_t bytes = sizeof(LevelMemory<Key, Value, way>);
  partition_spans<Key, Value, way>
      <<<level_blocks<Key, Value, way>(), level_threads, bytes, stream>>>(columns, state, level % 2);
}
template <typename Key, typename Value>
void partition_level(cudaStream_t stream, const ColumnsOf<Key, Value>& columns, const State& state, int level) {
  launch_partition<Key, Value, Way::usual>(stream, columns, state, level);
  if constexpr (can_be_narrow<Key, Value>) {
    if (level == 0 && may_be_narrow(state)) launch_partition<Key, Value, Way::to_narrow>(stream, columns, state, level);
    if (level > 0 && may_be_narrow(state)) launch_partition<Key, Value, Way::narrow>(stream, columns, state, level);
  }
  check_launch("partition a level");
}

template <typename Key, typename Stored>
void launch_pages(cudaStream_t stream, const Columns<Key>& columns, const State& state) {
  constexpr std::size_t bytes = sizeof(PagedLevelMemory<Key>);
  static_assert(bytes <= block_bytes<Key, NoValue>);
  const std::uint32_t blocks = resident_blocks<partition_into_pages<Key, Stored>>(level_threads, bytes);
  partition_into_pages<Key, Stored><<<blocks, level_threads, bytes, stream>>>(columns, state);
  split_pages<Key, Stored><<<1, level_threads, 0, stream>>>(columns, state);
}
/// The first level where it is paged. What counts and partitions a first level then finds nothing to do.
template <typename Key>
void store_in_pages(cudaStream_t stream, const Columns<Key>& columns, const State& state) {
  if (state.pages == 0) return;
  const auto clear = [stream](std::uint32_t* counters, std::uint64_t count) {
    check(cudaMemsetAsync(counters, 0, count * sizeof *counters, stream), "clear the table of pages");
  };
  clear(state.paged, state.pages);
  clear(state.entries, std::uint64_t{state.pages} * Pages<Key>::of_digit(columns.count));
  launch_pages<Key, Key>(stream, columns, state);
  if constexpr (can_be_narrow<Key, NoValue>)
    if (may_be_narrow(state)) launch_pages<Key, NarrowKey>(stream, columns, state);
  check_launch("store in pages");
}

/// Sorts all listed items, and the buckets that are left.
template <typename Key, typename Value, Way way>
void finish_sort(cudaStream_t stream, ColumnsOf<Key, Value> columns, State state) {
  constexpr std::size_t usual_bytes = sizeof(UsualMemory<Key, Value, way>);
  constexpr std::size_t hard_bytes = sizeof(HardMemory<Key, Value, way>);
  constexpr std::size_t left_bytes = sizeof(LeftMemory<Key, Value, way>);
  const std::uint32_t usual_blocks = resident_blocks<finish<Key, Value, way>>(finish_threads, usual_bytes);
  const std::uint32_t hard_blocks = resident_blocks<finish_hard<Key, Value, way>>(finish_threads, hard_bytes);
  const std::uint32_t left_blocks = resident_blocks<sort_what_is_left<Key, Value, way>>(level_threads, left_bytes);
  if constexpr (way == Way::narrow)
    if (columns.keys[in_room] == columns.keys[in_input])
      clear_result<<<usual_blocks, finish_threads, 0, stream>>>(columns, state);
  finish<Key, Value, way><<<usual_blocks, finish_threads, usual_bytes, stream>>>(columns, state);
  finish_hard<Key, Value, way><<<hard_blocks, finish_threads, hard_bytes, stream>>>(columns, state);
  check_launch("finish");
  int now = usual_levels % 2;
  void* arguments[] = {&columns, &state, &now};
  check(cudaLaunchCooperativeKernel(sort_what_is_left<Key, Value, way>, std::min(left_blocks, most_blocks),
                                    level_threads, arguments, left_bytes, stream),
        "sort what is left");
}

/// Sorts the buckets of a level, and all listed items.
template <typename Key, typename Value>
void sort_from_level(cudaStream_t stream, int level, const ColumnsOf<Key, Value>& columns, const State& state) {
  for (; level < usual_levels; ++level) {
    count_level<Key, Value>(stream, columns, state, level);
    split_level<Key, Value>(stream, state, level);
    partition_level<Key, Value>(stream, columns, state, level);
  }
  finish_sort<Key, Value, Way::usual>(stream, columns, state);
  if constexpr (can_be_narrow<Key, Value>)
    if (may_be_narrow(state)) finish_sort<Key, Value, Way::narrow>(stream, columns, state);
}

inline void clear_checksum(cudaStream_t stream, std::uint64_t* checksum) {
  if (checksum != nullptr) check(cudaMemsetAsync(checksum, 0, sizeof *checksum, stream), "clear the checksum");
}

/// Call after `look`, with the same extent.
template <typename Key, typename Value>
void sort(cudaStream_t stream, const ColumnsOf<Key, Value>& columns, const Extent& extent, void* scratch) {
  clear_checksum(stream, columns.checksum);
  const State state = state_in(scratch, extent);
  if constexpr (!has_bytes<Value>) store_in_pages<Key>(stream, columns, state);
  sort_from_level<Key, Value>(stream, 0, columns, state);
}

constexpr std::size_t shared_on_hopper = 227 << 10;  // bytes that a block may have

template <typename Key, typename Value>
std::vector<const void*> kernels() {
  static_assert(block_bytes<Key, Value> <= shared_on_hopper);
  return {address(partition_spans<Key, Value, Way::usual>), address(partition_spans<Key, Value, Way::shared>),
          address(finish<Key, Value, Way::usual>), address(finish_hard<Key, Value, Way::usual>),
          address(sort_what_is_left<Key, Value, Way::usual>)};
}
// What takes narrow keys is compiled apart: msd_sort_narrow.cu.
std::vector<const void*> kernels_of_narrow_keys();
extern template void launch_count<std::uint64_t, Way::narrow>(cudaStream_t, const Columns<std::uint64_t>&, const State&,
                                                              int);
extern template void launch_partition<std::uint64_t, NoValue, Way::to_narrow>(cudaStream_t,
                                                                              const Columns<std::uint64_t>&,
                                                                              const State&, int);
extern template void launch_partition<std::uint64_t, NoValue, Way::narrow>(cudaStream_t, const Columns<std::uint64_t>&,
                                                                           const State&, int);
extern template void launch_pages<std::uint64_t, NarrowKey>(cudaStream_t, const Columns<std::uint64_t>&, const State&);
extern template void finish_sort<std::uint64_t, NoValue, Way::narrow>(cudaStream_t, Columns<std::uint64_t>, State);

}  // namespace linkwise::cuda::msd
