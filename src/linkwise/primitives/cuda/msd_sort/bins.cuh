// Sorts up to a few thousand numbers in shared memory.
//
// The numbers go to bins of equal width, of which there are about as many. Then each number is less than the length of
// its bin away from its place: a few rounds of odd-even transposition, in registers, bring it there. Longer bins, of
// keys that occur often, are in order already, or are put in order by counting: long_bins.cuh.
#pragma once

#include <cub/block/block_scan.cuh>

#include "linkwise/primitives/cuda/msd_sort/digits.cuh"
#include "linkwise/primitives/cuda/msd_sort/long_bins.cuh"

namespace linkwise::cuda::msd {

constexpr unsigned usual_bin = 16;  // numbers: half of a warp, which merges borders

/// `items`: per thread, an even number. `bin_pairs`: as many pairs of bins per thread. Longer bins are sorted if all
/// numbers in each are equal or, where their last `position_bits` tell positions, have one or two keys before these.
template <typename Number, int threads, int items, int bin_pairs, int position_bits = 0>
class BinSort {
  using Scan = cub::BlockScan<std::uint32_t, threads>;
  struct None {};
  using OrderedBins =
      std::conditional_t<(position_bits > 0), LongBins<Number, threads, items, 2 * bin_pairs * threads, position_bits>,
                         None>;

 public:
  static constexpr int capacity = items * threads, max_bins = 2 * bin_pairs * threads;

  struct Memory {
    alignas(16) Number numbers[capacity];
    // 16 bits each: first how many numbers a bin has, then where they begin.
    alignas(16) std::uint32_t bins[max_bins / 2];
    typename Scan::TempStorage scan;
    std::uint32_t longest, longest_disordered;
    struct {
      std::uint32_t begin, longest;
    } of_warp[threads / 32];  // where the bins that a warp has counted begin, and how many numbers the longest has
    OrderedBins long_bins;
  };

  __device__ explicit BinSort(Memory& memory) : memory_(memory) {}

  /// Sorts `count` numbers of at most `reach` into `numbers()`; the one at a position, of two calls or more, is
  /// number_at(position). Calls when_read() after the last of these. Returns false if a bin is too long.
  template <typename NumberAt, typename WhenRead>
  __device__ __forceinline__ bool sort(std::uint32_t count, std::uint64_t reach, const NumberAt& number_at,
                                       const WhenRead& when_read) {
    // The number of numbers from the thread's first one to the end; a thread's numbers are `threads` apart.
    const int left = static_cast<int>(count) - static_cast<int>(threadIdx.x);
    if (threadIdx.x == 0) memory_.longest = memory_.longest_disordered = 0;
#pragma unroll
    for (int i = 0; i < bin_pairs; ++i) memory_.bins[threadIdx.x + i * threads] = 0;
    __syncthreads();
    const Bins bin_of = bins_for(reach);
    std::uint32_t rank[items / 2];  // two of 16 bits each
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) continue;
      const unsigned bin = bin_of(number_at(threadIdx.x + i * threads)), upper = bin % 2 * 16;
      const std::uint32_t found = atomicAdd(&memory_.bins[bin / 2], 1u << upper) >> upper;
      rank[i / 2] = i % 2 == 0 ? found : __byte_perm(rank[i / 2], found, 0x5410);
    }
    __syncthreads();
    find_starts();
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (i * threads >= left) {
        memory_.numbers[threadIdx.x + i * threads] = static_cast<Number>(~Number{0});
        continue;
      }
      const Number number = number_at(threadIdx.x + i * threads);
      memory_.numbers[start_of(bin_of(number)) + (i % 2 == 0 ? rank[i / 2] & 0xffff : rank[i / 2] >> 16)] = number;
    }
    __syncthreads();
    const unsigned longest = memory_.longest;
    if constexpr (position_bits > 0)
      if (longest > longest_bin) order_long_bins(memory_, count, bin_of, number_at);
    when_read();
    if (bin_of.are_numbers) return true;
    unsigned most = longest;  // numbers in a bin that is sorted by rounds
    if (longest > (position_bits > 0 ? longest_bin : usual_bin)) {
      most = max(longest_disordered(count, bin_of), usual_bin);
      if (most > longest_bin) return false;
    }
    if (longest > 1) order_bins(most);
    return true;
  }

  [[nodiscard]] __device__ __forceinline__ const Number* numbers() const { return memory_.numbers; }

 private:
  struct Bins {
    unsigned shift, scale;
    bool are_numbers;

    __device__ __forceinline__ unsigned operator()(Number number) const {
      return scaled_digit(static_cast<std::uint32_t>(number >> shift), scale);
    }
  };

  // Like `cut_evenly`, but with a slightly smaller scale, which needs no 64-bit division.
  __device__ __forceinline__ static Bins bins_for(std::uint64_t reach) {
    if (reach < max_bins) return {0, 1u << 31, true};
    const auto shift = static_cast<unsigned>(max(bit_width(reach) - scaled_bits, 0));
    const auto distances = static_cast<float>(static_cast<std::uint32_t>(reach >> shift) + 1);
    constexpr float doubled = 0.999999F * max_bins * static_cast<float>(1u << 31);
    return {shift, static_cast<std::uint32_t>(__fdividef(doubled, distances)), false};
  }

  // Replaces the bins' counts by where the bins begin: exclusive prefix sums.
  __device__ __forceinline__ void find_starts() {
    std::uint32_t* const mine = memory_.bins + threadIdx.x * bin_pairs;
    std::uint32_t word[bin_pairs], sum = 0, most = 0;
#pragma unroll
    for (int i = 0; i < bin_pairs; ++i) word[i] = mine[i];
#pragma unroll
    for (int i = 0; i < bin_pairs; ++i) {
      sum += word[i];
      most = __vmaxu2(most, word[i]);
    }
    most = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
    if (threadIdx.x % 32 == 0) atomicMax(&memory_.longest, most);
    std::uint32_t start = (sum & 0xffff) + (sum >> 16);
    Scan(memory_.scan).ExclusiveSum(start, start);
    if (threadIdx.x % 32 == 0) memory_.of_warp[threadIdx.x / 32] = {start, most};
#pragma unroll
    for (int i = 0; i < bin_pairs; ++i) {
      const std::uint32_t second = start + (word[i] & 0xffff);
      const std::uint32_t starts = start | second << 16;
      start = second + (word[i] >> 16);
      word[i] = starts;
    }
#pragma unroll
    for (int i = 0; i < bin_pairs; ++i) mine[i] = word[i];
    __syncthreads();
  }

  [[nodiscard]] __device__ __forceinline__ unsigned start_of(unsigned bin) const {
    return reinterpret_cast<const std::uint16_t*>(memory_.bins)[bin];
  }

  // Of the bins longer than usual whose numbers are not in order.
  __device__ __forceinline__ unsigned longest_disordered(std::uint32_t count, const Bins& bin_of) {
    unsigned longest = 0;
    for (unsigned at = threadIdx.x; at < count; at += threads) {
      const Number number = memory_.numbers[at];
      const unsigned bin = bin_of(number), begin = start_of(bin);
      const unsigned length = (bin + 1 == max_bins ? count : start_of(bin + 1)) - begin;
      if (length > max(usual_bin, longest) && at > begin && number < memory_.numbers[at - 1]) longest = length;
    }
    if (longest > 0) atomicMax(&memory_.longest_disordered, longest);
    __syncthreads();
    return memory_.longest_disordered;
  }

  // Not inlined: it takes no registers from the usual way.
  template <typename NumberAt>
  __device__ __noinline__ static void order_long_bins(Memory& memory, std::uint32_t count, Bins bin_of,
                                                      NumberAt number_at) {
    const auto* const starts = reinterpret_cast<const std::uint16_t*>(memory.bins);
    memory.long_bins.order(memory.numbers, starts, count, bin_of, number_at);
  }

  __device__ __forceinline__ static void exchange(Number& first, Number& second) {
    const Number lesser = min(first, second);
    second = max(first, second);
    first = lesser;
  }

  // The longest of the bins that have numbers of the calling warp's strips.
  [[nodiscard]] __device__ __forceinline__ unsigned longest_of_strips(unsigned most) const {
    constexpr unsigned warps = threads / 32, strips = 32 * items;
    const unsigned lane = threadIdx.x % 32, begin = threadIdx.x / 32 * strips;
    unsigned longest = 0;
    if (lane < warps && memory_.of_warp[lane].begin < begin + strips &&
        (lane + 1 == warps || memory_.of_warp[lane + 1].begin > begin))
      longest = memory_.of_warp[lane].longest;
    return min(__reduce_max_sync(~0u, longest), most);
  }

  // Each thread takes a strip of consecutive numbers. The rounds, as many as a warp's longest bin has numbers, stay
  // within its strips; then the sorted numbers before and after each border between warps are merged.
  __device__ __forceinline__ void order_bins(unsigned most) {
    struct alignas(items * sizeof(Number) % 16 == 0 ? 16 : 8) Strip {
      Number number[items];
    };
    constexpr int last = items - 1;
    const unsigned lane = threadIdx.x % 32, longest = longest_of_strips(most);
    Strip strip = reinterpret_cast<const Strip*>(memory_.numbers)[threadIdx.x];
    for (unsigned round = 0; round < longest; round += 2) {
#pragma unroll
      for (int i = 0; i < last; i += 2) exchange(strip.number[i], strip.number[i + 1]);
      if (round + 1 == longest) break;
      const Number before = __shfl_up_sync(~0u, strip.number[last], 1);
      const Number after = __shfl_down_sync(~0u, strip.number[0], 1);
#pragma unroll
      for (int i = 1; i < last; i += 2) exchange(strip.number[i], strip.number[i + 1]);
      if (lane > 0) strip.number[0] = max(strip.number[0], before);
      if (lane < 31) strip.number[last] = min(strip.number[last], after);
    }
    reinterpret_cast<Strip*>(memory_.numbers)[threadIdx.x] = strip;
    __syncthreads();
    if (most > usual_bin) merge_long_borders(memory_);
    else if (threadIdx.x < threads - 32) {
      Number* const window = memory_.numbers + border_after_strips() - usual_bin;
      Number number = window[lane < usual_bin ? lane : 31 + usual_bin - lane];
#pragma unroll
      for (unsigned distance = 16; distance > 0; distance /= 2) {
        const Number other = __shfl_xor_sync(~0u, number, distance);
        number = (lane & distance) != 0 ? max(number, other) : min(number, other);
      }
      __syncwarp();
      window[lane] = number;
    }
    __syncthreads();
  }

  [[nodiscard]] __device__ __forceinline__ static unsigned border_after_strips() {
    return (threadIdx.x / 32 + 1) * 32 * items;
  }

  // Merges `longest_bin` numbers on either side of each border, with a bitonic network: each lane has the numbers at
  // its places from the beginning of the window, and those at its places from the end.
  __device__ __noinline__ static void merge_long_borders(Memory& memory) {
    constexpr unsigned each = longest_bin / 32;
    static_assert(2 * longest_bin <= 32 * items);
    if (threadIdx.x >= threads - 32) return;
    const unsigned lane = threadIdx.x % 32;
    Number* const window = memory.numbers + border_after_strips() - longest_bin;
    Number lower[each], upper[each];
#pragma unroll
    for (unsigned i = 0; i < each; ++i) {
      lower[i] = window[lane + 32 * i];
      upper[i] = window[2 * longest_bin - 1 - (lane + 32 * i)];
      exchange(lower[i], upper[i]);
    }
#pragma unroll
    for (unsigned step = each / 2; step > 0; step /= 2)
#pragma unroll
      for (unsigned i = 0; i < each; ++i)
        if ((i & step) == 0) {
          exchange(lower[i], lower[i + step]);
          exchange(upper[i + step], upper[i]);
        }
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2)
#pragma unroll
      for (unsigned i = 0; i < each; ++i) {
        const Number of_lower = __shfl_xor_sync(~0u, lower[i], distance),
                     of_upper = __shfl_xor_sync(~0u, upper[i], distance);
        const bool is_later = (lane & distance) != 0;
        lower[i] = is_later ? max(lower[i], of_lower) : min(lower[i], of_lower);
        upper[i] = is_later ? min(upper[i], of_upper) : max(upper[i], of_upper);
      }
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < each; ++i) {
      window[lane + 32 * i] = lower[i];
      window[2 * longest_bin - 1 - (lane + 32 * i)] = upper[i];
    }
  }

  Memory& memory_;
};

}  // namespace linkwise::cuda::msd
