// Maps a code to its bucket; the buckets are chosen from a sample.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "linkwise/primitives/host/vectors.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace linkwise {

/// A code's bucket is its leading digit within the sample's range, where about as many of the sample have each.
/// Otherwise the range is cut into cells; cells with many codes are cut into buckets, and neighbouring cells with few
/// share one. The buckets are in the order of their codes, whatever the sample was.
template <typename Code>
class BucketDigits {
 public:
  /// `wanted`: the number of buckets to aim for, with about equally many codes each. A leading digit is a bucket only
  /// if none has more than `most` codes of the sample.
  BucketDigits(const std::vector<Code>& sample, std::uint64_t wanted, std::uint64_t most) {
    const auto [least, greatest] = std::ranges::minmax(sample);
    low_ = least;
    high_ = greatest;
    if (has_even_digits(sample, wanted, most)) return;
    shift_ = std::max(static_cast<int>(std::bit_width(static_cast<Code>(high_ - low_))) - cell_bits, 0);
    std::array<std::uint64_t, cells> held{};
    for (const Code code : sample) ++held[static_cast<std::size_t>((code - low_) >> shift_)];
    // A cell with more codes than a bucket should have is cut into a power of two of buckets.
    std::uint64_t bucket = 0, in_bucket = 0;
    const std::uint64_t enough = std::max<std::uint64_t>(sample.size() / wanted, 1);
    for (std::size_t c = 0; c < cells; ++c) {
      const int bits = std::min(shift_, static_cast<int>(std::bit_width(held[c] / enough)));
      const bool is_cut = bits > 1;
      if (in_bucket + held[c] > enough || is_cut) bucket += std::exchange(in_bucket, 0) > 0 ? 1 : 0;
      cells_[c] = static_cast<std::uint32_t>(bucket) << 8 | static_cast<std::uint32_t>(is_cut ? shift_ - bits : shift_);
      if (is_cut) bucket += std::uint64_t{1} << bits;
      else in_bucket += held[c];
    }
    count_ = bucket + 1;
  }

  /// How many buckets there are.
  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// Writes the buckets of `count` codes.
  void find(const Code* codes, std::uint32_t* buckets, std::uint64_t count) const {
    if (is_even_) return find_digits(codes, buckets, count, low_, high_, shift_);
    std::uint64_t i = 0;
#ifdef __x86_64__
    static const bool has_vectors = __builtin_cpu_supports("avx512f") != 0;
    if (has_vectors) i = find_by_vectors(codes, buckets, count);
#endif
    find_in_cells(codes + i, buckets + i, count - i);
  }

 private:
  static constexpr int cell_bits = 11;
  static constexpr std::size_t cells = std::size_t{1} << cell_bits;
  static constexpr std::uint64_t most_of_even = 4;  // times as many codes as digits have on average

  // Whether no digit has far more codes of the sample than the others, and then takes these as buckets.
  bool has_even_digits(const std::vector<Code>& sample, std::uint64_t wanted, std::uint64_t most) {
    const auto range = static_cast<Code>(high_ - low_);
    shift_ = 0;
    while (range >> shift_ >= wanted) ++shift_;
    count_ = static_cast<std::uint64_t>(range >> shift_) + 1;
    std::vector<std::uint32_t> held(count_);
    for (const Code code : sample) ++held[static_cast<std::size_t>((code - low_) >> shift_)];
    is_even_ = std::ranges::max(held) <= std::min(most_of_even * sample.size() / count_, most);
    return is_even_;
  }

  // A loop that the compiler vectorises.
  LINKWISE_VECTORS static void find_digits(const Code* codes, std::uint32_t* buckets, std::uint64_t count, Code low,
                                           Code high, int shift) {
    for (std::uint64_t i = 0; i < count; ++i)
      buckets[i] = static_cast<std::uint32_t>((std::min(std::max(codes[i], low), high) - low) >> shift);
  }

  LINKWISE_VECTORS void find_in_cells(const Code* codes, std::uint32_t* buckets, std::uint64_t count) const {
    const Code low = low_, high = high_, within = static_cast<Code>((Code{1} << shift_) - 1);
    const int shift = shift_;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Code offset = static_cast<Code>(std::min(std::max(codes[i], low), high) - low);
      const std::uint32_t cell = cells_[static_cast<std::size_t>(offset >> shift)];
      buckets[i] = (cell >> 8) + static_cast<std::uint32_t>((offset & within) >> (cell & 0xff));
    }
  }

#ifdef __x86_64__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC's own headers
  // The same for as many codes as fill whole vectors; returns how many. Compilers do not emit gathers on their own.
  [[gnu::target("avx512f")]] std::uint64_t find_by_vectors(const Code* codes, std::uint32_t* buckets,
                                                           std::uint64_t count) const {
    const __m128i shift = _mm_cvtsi32_si128(shift_);
    std::uint64_t i = 0;
    if constexpr (sizeof(Code) == 4) {
      const __m512i low = _mm512_set1_epi32(static_cast<int>(low_)), high = _mm512_set1_epi32(static_cast<int>(high_)),
                    within = _mm512_set1_epi32((1 << shift_) - 1), byte = _mm512_set1_epi32(0xff);
      for (; i + 16 <= count; i += 16) {
        const __m512i code = _mm512_min_epu32(_mm512_max_epu32(_mm512_loadu_si512(codes + i), low), high);
        const __m512i offset = _mm512_sub_epi32(code, low);
        const __m512i cell = _mm512_i32gather_epi32(_mm512_srl_epi32(offset, shift), cells_.data(), 4);
        const __m512i rest = _mm512_srlv_epi32(_mm512_and_si512(offset, within), _mm512_and_si512(cell, byte));
        _mm512_storeu_si512(buckets + i, _mm512_add_epi32(_mm512_srli_epi32(cell, 8), rest));
      }
    } else {
      const __m512i low = _mm512_set1_epi64(static_cast<long long>(low_)),
                    high = _mm512_set1_epi64(static_cast<long long>(high_)),
                    within = _mm512_set1_epi64((1LL << shift_) - 1), byte = _mm512_set1_epi64(0xff);
      for (; i + 8 <= count; i += 8) {
        const __m512i code = _mm512_min_epu64(_mm512_max_epu64(_mm512_loadu_si512(codes + i), low), high);
        const __m512i offset = _mm512_sub_epi64(code, low);
        const __m512i cell =
            _mm512_cvtepu32_epi64(_mm512_i64gather_epi32(_mm512_srl_epi64(offset, shift), cells_.data(), 4));
        const __m512i rest = _mm512_srlv_epi64(_mm512_and_si512(offset, within), _mm512_and_si512(cell, byte));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(buckets + i),
                            _mm512_cvtepi64_epi32(_mm512_add_epi64(_mm512_srli_epi64(cell, 8), rest)));
      }
    }
    return i;
  }
#pragma GCC diagnostic pop
#endif

  Code low_ = 0, high_ = 0;
  int shift_ = 0;
  bool is_even_ = false;
  std::uint64_t count_ = 0;
  std::array<std::uint32_t, cells> cells_{};  // the first bucket, and in the lowest byte, the bits to drop
};

}  // namespace linkwise
