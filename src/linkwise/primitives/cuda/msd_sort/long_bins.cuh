// Bins of many numbers that are equal but for their positions: keys that occur often.
#pragma once

#include <cstdint>

namespace linkwise::cuda::msd {

/// That rounds sort: where each key occurs ten times, some bins have thirty numbers.
constexpr unsigned longest_bin = 64;

/// Sorts longer bins by counting, in shared memory. A number's last `position_bits` tell its position, and the bits
/// before them its key. A bin's numbers are in two groups, those of its least key and the others: each group is put in
/// the order of positions, so that a bin of one or two keys is sorted.
template <typename Number, int threads, int items, int max_bins, int position_bits>
class LongBins {
  static constexpr unsigned warps = threads / 32, words = max_bins / 32;
  static constexpr unsigned most = items * threads / (longest_bin + 1);  // as many bins can be so long
  static constexpr unsigned no_bin = ~0u;

 public:
  /// `starts`: where each bin begins. `numbers` lie in their bins, and number_at(position) is the one at a position.
  template <typename BinOf, typename NumberAt>
  __device__ __forceinline__ void order(Number* numbers, const std::uint16_t* starts, std::uint32_t count,
                                        const BinOf& bin_of, const NumberAt& number_at) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    std::uint32_t* const mine = next_[warp];
    for (unsigned index = lane; index < most; index += 32) mine[index] = 0;
    find(numbers, starts, count);
    // Each warp takes consecutive positions. Calls body(number, index, upper) for those of the i-th long bin; `upper`:
    // how many bits its group's half of a word is above the other's.
    const auto for_each = [&](const auto& body) {
      const unsigned begin = warp * 32 * items, end = min(begin + 32 * items, count);
#pragma unroll 1
      for (unsigned at = begin + lane; at - lane < end; at += 32) {
        if (at < end) {
          const Number number = number_at(at);
          const unsigned index = index_of(bin_of(number));
          if (index != no_bin) body(number, index, number >> position_bits == least_[index] ? 0u : 16u);
        }
        __syncwarp();
      }
    };
    for_each([&](Number, unsigned index, unsigned upper) { atomicAdd(&mine[index], 1u << upper); });
    __syncthreads();
    for (unsigned index = threadIdx.x; index < most; index += threads) {
      std::uint32_t at = begins_[index];
      for (unsigned of_warp = 0; of_warp < warps; ++of_warp) {
        const std::uint32_t lengths = next_[of_warp][index];
        next_[of_warp][index] = at;
        at += lengths;
      }
    }
    __syncthreads();
    // Lanes usually take their turns in order; if they do not, the bin is found to be in disorder.
    for_each([&](Number number, unsigned index, unsigned upper) {
      numbers[atomicAdd(&mine[index], 1u << upper) >> upper & 0xffff] = number;
    });
    __syncthreads();
  }

 private:
  [[nodiscard]] __device__ __forceinline__ unsigned index_of(unsigned bin) const {
    const std::uint32_t word = are_long_[bin / 32], bit = 1u << bin % 32;
    return (word & bit) == 0 ? no_bin : before_[bin / 32] + __popc(word & (bit - 1));
  }

  // Lists the long bins and where their groups begin.
  __device__ __forceinline__ void find(const Number* numbers, const std::uint16_t* starts, std::uint32_t count) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto end_of = [&](unsigned bin) { return bin + 1 == max_bins ? count : starts[bin + 1]; };
    for (unsigned word = warp; word < words; word += warps) {
      const unsigned bin = 32 * word + lane;
      const unsigned are_long = __ballot_sync(~0u, end_of(bin) - starts[bin] > longest_bin);
      if (lane == 0) are_long_[word] = are_long;
    }
    __syncthreads();
    if (warp == 0) count_before();
    __syncthreads();
    for (unsigned word = warp; word < words; word += warps)
      for (unsigned left = are_long_[word]; left != 0; left &= left - 1) {
        const unsigned bin = 32 * word + __ffs(static_cast<int>(left)) - 1;
        list(numbers, index_of(bin), starts[bin], end_of(bin));
      }
    __syncthreads();
  }
  // The first warp: how many long bins there are before each word.
  __device__ __forceinline__ void count_before() {
    const unsigned lane = threadIdx.x % 32;
    unsigned all = 0;
    for (unsigned first = 0; first < words; first += 32) {
      const unsigned here = first + lane < words ? __popc(are_long_[first + lane]) : 0;
      unsigned sum = here;  // up to this lane
      for (unsigned distance = 1; distance < 32; distance *= 2) {
        const unsigned other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += other;
      }
      if (first + lane < words) before_[first + lane] = static_cast<std::uint16_t>(all + sum - here);
      all += __shfl_sync(~0u, sum, 31);
    }
  }
  // A warp: the least key of a bin, and where its groups begin.
  __device__ __forceinline__ void list(const Number* numbers, unsigned index, unsigned begin, unsigned end) {
    const unsigned lane = threadIdx.x % 32;
    auto lowest = static_cast<Number>(~Number{0});
    for (unsigned at = begin + lane; at < end; at += 32) lowest = min(lowest, numbers[at]);
    for (unsigned distance = 16; distance > 0; distance /= 2)
      lowest = min(lowest, __shfl_xor_sync(~0u, lowest, distance));
    const Number least = lowest >> position_bits;
    unsigned of_least = 0;
    for (unsigned at = begin + lane; at < end; at += 32) of_least += numbers[at] >> position_bits == least ? 1 : 0;
    of_least = __reduce_add_sync(~0u, of_least);
    if (lane != 0) return;
    least_[index] = least;
    begins_[index] = begin | (begin + of_least) << 16;
  }

  std::uint32_t are_long_[words];  // a bit for each bin
  std::uint16_t before_[words];    // how many are long before each word
  Number least_[most];
  // Two numbers of 16 bits each, for a bin's groups: where they begin, and where the next number goes that a warp has.
  std::uint32_t begins_[most], next_[warps][most];
};

}  // namespace linkwise::cuda::msd
