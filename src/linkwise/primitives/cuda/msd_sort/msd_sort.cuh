// Radix sort by the most significant digits first: the local sort takes most of a sort's time on the GPUs (sort22
// §5.1). Finishing buckets in shared memory as soon as they fit is the idea of Stehle and Jacobsen (SIGMOD 2017,
// "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs"); digits from a sample, levels that need no host, and bins
// are ours.
#pragma once

#include <array>
#include <cmath>
#include <mutex>

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/cuda/msd_sort/finish.cuh"
#include "linkwise/primitives/cuda/msd_sort/levels.cuh"
#include "linkwise/primitives/cuda/msd_sort/root.cuh"

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

template <typename Key>
struct Launches {
  std::uint32_t count_blocks, level_blocks, left_blocks, finish_blocks, hard_blocks;

  static Launches of_this_device() {
    return {resident_blocks(count_spans<Key>, level_threads, sizeof(SpanCountMemory<Key>)),
            resident_blocks(partition_spans<Key>, level_threads, sizeof(LevelMemory<Key>)),
            resident_blocks(sort_what_is_left<Key>, level_threads, sizeof(LeftMemory<Key>)),
            resident_blocks(finish<Key>, finish_threads, sizeof(typename ItemSort<Key>::Memory)),
            resident_blocks(finish_hard<Key>, finish_threads, sizeof(typename ItemSort<Key>::Memory))};
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

/// Whether every device supports bulk copies and has enough shared memory per block. Devices before Hopper, and small
/// ones since, do not. All devices must, because the caller has not chosen one yet.
template <typename Key>
bool fits_every_device() {
  static const bool fits = [] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "count devices");
    const int bytes = least_of_devices(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return devices <= most_devices && least_of_devices(cudaDevAttrComputeCapabilityMajor) >= 9 &&
           std::max(sizeof(LevelMemory<Key>), sizeof(LeftMemory<Key>)) <= static_cast<std::size_t>(bytes);
  }();
  return fits;
}

template <typename Key>
Columns<Key> columns_of(std::array<Key*, 3> keys, KeyCoding coding, std::uint64_t count,
                        std::uint64_t* checksum = nullptr) {
  return {{keys[in_input], keys[in_result], keys[in_room]},
          key_class(coding.type),
          coding.descending,
          is_own_code(coding.type, coding.descending),
          checksum,
          count};
}

template <typename Key>
Extent extent_of(std::uint64_t count) {
  return {count, tile_keys<Key>, item_capacity<Key>};
}
template <typename Key>
std::uint64_t scratch_bytes(std::uint64_t count) {
  State state{};
  return lay_out(nullptr, extent_of<Key>(count), state);
}
template <typename Key>
State state_in(void* scratch, std::uint64_t count) {
  State state{};
  lay_out(scratch, extent_of<Key>(count), state);
  return state;
}

/// Prepares `sort` of the same keys and scratch, and estimates the distribution of the keys.
template <typename Key>
void look(cudaStream_t stream, Key* keys, KeyCoding coding, std::uint64_t count, SortBuffers buffers, void* scratch,
          KeySpread* spread) {
  const State state = state_in<Key>(scratch, count);
  const double parts = static_cast<double>(count) / (planned_fill * item_capacity<Key>);
  const bool is_one_level = parts <= root_digits;
  const auto wanted =
      static_cast<std::uint32_t>(std::min(std::ceil(is_one_level ? parts : std::sqrt(parts)), double{root_digits}));
  // The first level must not write onto the input; of two levels, the second ends in the result if possible.
  const bool to_result =
      buffers != SortBuffers::result_is_input && (is_one_level || buffers == SortBuffers::room_is_input);
  const auto input = columns_of<Key>({keys, nullptr, nullptr}, coding, count);
  look_at_sample<<<1, sample_threads, 0, stream>>>(input, static_cast<std::uint32_t>(count), wanted,
                                                   is_one_level ? 1 : wanted, to_result ? in_result : in_room, state,
                                                   spread);
  check_launch("look at a sample");
}

/// Call after `look`.
template <typename Key>
void sort(cudaStream_t stream, Columns<Key> columns, void* scratch) {
  State state = state_in<Key>(scratch, columns.count);
  const Launches<Key>& launches = Launches<Key>::get();
  const std::uint32_t blocks = std::min(launches.level_blocks, most_blocks);
  if (columns.checksum != nullptr)
    check(cudaMemsetAsync(columns.checksum, 0, sizeof *columns.checksum, stream), "clear the checksum");
  int now = 0;
  for (int level = 0; level < usual_levels; ++level, now = 1 - now) {
    count_spans<Key>
        <<<launches.count_blocks, level_threads, sizeof(SpanCountMemory<Key>), stream>>>(columns, state, now);
    sum_counters<<<blocks, level_threads, 0, stream>>>(state, now);
    scan_counters<<<blocks, level_threads, 0, stream>>>(state, now);
    split_buckets<Key><<<blocks, level_threads, 0, stream>>>(state, now);
    partition_spans<Key><<<blocks, level_threads, sizeof(LevelMemory<Key>), stream>>>(columns, state, now);
    check_launch("partition a level");
  }
  const std::size_t finish_bytes = sizeof(typename ItemSort<Key>::Memory);
  finish<Key><<<launches.finish_blocks, finish_threads, finish_bytes, stream>>>(columns, state);
  finish_hard<Key><<<launches.hard_blocks, finish_threads, finish_bytes, stream>>>(columns, state);
  check_launch("finish");
  void* arguments[] = {&columns, &state, &now};
  check(cudaLaunchCooperativeKernel(sort_what_is_left<Key>, std::min(launches.left_blocks, blocks), level_threads,
                                    arguments, sizeof(LeftMemory<Key>), stream),
        "sort what is left");
}

}  // namespace linkwise::cuda::msd
