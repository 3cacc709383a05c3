// Strings: gathered by their row numbers, made words and hashes of, and compared.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

constexpr unsigned lanes = 8;  // per string; most strings are not longer than what they copy at once

template <typename Index>
__global__ void gather_lengths_kernel(const __grid_constant__ RawStrings from, const Index* indices,
                                      std::uint64_t* lengths, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    lengths[i] = indices[i] == all_ones<Index>() ? 0 : string_of(from, indices[i]).length;
}

// `lanes` threads copy bytes of any alignment on both sides: aligned words are written, each made of two aligned
// words that are read; the bytes before and after them are copied one by one.
__device__ void copy_bytes(std::uint8_t* to, const std::uint8_t* from, std::uint64_t length, unsigned lane) {
  const std::uint64_t before = (4 - reinterpret_cast<std::uintptr_t>(to) % 4) % 4,
                      head = before < length ? before : length;
  if (lane < head) to[lane] = from[lane];
  to += head;
  from += head;
  length -= head;
  const unsigned shift = 8 * (reinterpret_cast<std::uintptr_t>(from) % 4);
  const auto* words = reinterpret_cast<const std::uint32_t*>(from - shift / 8);
  for (std::uint64_t w = lane; w < length / 4; w += lanes) {
    const std::uint32_t low = words[w], high = shift == 0 ? 0 : words[w + 1];
    reinterpret_cast<std::uint32_t*>(to)[w] = __funnelshift_r(low, high, shift);
  }
  const std::uint64_t rest = length / 4 * 4 + lane;
  if (rest < length) to[rest] = from[rest];
}

template <typename Index>
__global__ void gather_strings_kernel(const __grid_constant__ RawStrings from, const Index* indices,
                                      const std::uint64_t* sums, std::uint8_t* to, std::uint64_t count) {
  const std::uint64_t base = sums[0];
  for (std::uint64_t i = global_thread() / lanes; i < count; i += grid_threads() / lanes) {
    if (indices[i] == all_ones<Index>()) continue;
    const RawString string = string_of(from, indices[i]);
    copy_bytes(to + (sums[i] - base), string.data, string.length, threadIdx.x % lanes);
  }
}

__global__ void string_words_kernel(const __grid_constant__ RawStrings from, const std::uint8_t* nulls,
                                    const RawStringWords to, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const bool is_null = nulls != nullptr && nulls[i] != 0;
    const RawString string = is_null ? RawString{} : string_of(from, i);
#pragma unroll
    for (int w = 0; w < RawStringWords::most; ++w)
      if (w < to.count) to.word[w][i] = is_null ? ~std::uint64_t{0} : string_word(string, to.begin_of(w));
  }
}

__global__ void shared_lengths_kernel(const __grid_constant__ RawStrings from, const std::uint8_t* nulls,
                                      const __grid_constant__ RawStrings other, std::uint64_t* lengths,
                                      std::uint64_t count) {
  const RawString first = string_of(other, 0);
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    lengths[i] = nulls != nullptr && nulls[i] != 0 ? first.length : shared_length(string_of(from, i), first);
}

__global__ void mix_strings_into_hashes_kernel(const __grid_constant__ RawStrings from, std::uint64_t* hashes,
                                               std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    hashes[i] = string_hash_with(hashes[i], string_of(from, i));
}

template <typename Index>
__global__ void count_unequal_strings_kernel(const __grid_constant__ RawStrings left, const Index* left_rows,
                                             const __grid_constant__ RawStrings right, const Index* right_rows,
                                             std::uint64_t count, std::uint64_t* unequal) {
  std::uint64_t mine = 0;
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    mine += strings_differ(left, left_rows[i], right, right_rows[i]) ? 1 : 0;
  if (mine > 0) atomicAdd(reinterpret_cast<unsigned long long*>(unequal), static_cast<unsigned long long>(mine));
}

__global__ void mark_unequal_strings_kernel(const __grid_constant__ RawStrings from, const std::uint32_t* groups,
                                            std::uint32_t* marks, std::uint64_t count) {
  for (std::uint64_t i = global_thread() + 1; i < count; i += grid_threads())
    if (groups[i] == groups[i - 1] && !are_equal(string_of(from, i), string_of(from, i - 1))) marks[groups[i]] = 1;
}

}  // namespace

KernelList string_kernels() {
  KernelList list{address(string_words_kernel), address(shared_lengths_kernel), address(mix_strings_into_hashes_kernel),
                  address(mark_unequal_strings_kernel)};
  for (const int index_bytes : {4, 8})
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Index = typename decltype(index)::type;
      list.insert(list.end(), {address(gather_lengths_kernel<Index>), address(gather_strings_kernel<Index>),
                               address(count_unequal_strings_kernel<Index>)});
    });
  return list;
}

void gather_lengths(cudaStream_t stream, int index_bytes, const RawStrings& from, const void* indices,
                    std::uint64_t* lengths, std::uint64_t count) {
  with_key(to_key_width(index_bytes), [&](auto index) {
    using Index = typename decltype(index)::type;
    gather_lengths_kernel<Index>
        <<<grid_for(count), block_threads, 0, stream>>>(from, static_cast<const Index*>(indices), lengths, count);
  });
  check_launch("gather lengths");
}

void gather_strings(cudaStream_t stream, int index_bytes, const RawStrings& from, const void* indices,
                    const std::uint64_t* sums, void* to, std::uint64_t count) {
  with_key(to_key_width(index_bytes), [&](auto index) {
    using Index = typename decltype(index)::type;
    gather_strings_kernel<Index><<<grid_for(lanes * count), block_threads, 0, stream>>>(
        from, static_cast<const Index*>(indices), sums, static_cast<std::uint8_t*>(to), count);
  });
  check_launch("gather strings");
}

void string_words(cudaStream_t stream, const RawStrings& from, const std::uint8_t* nulls, const RawStringWords& to,
                  std::uint64_t count) {
  string_words_kernel<<<grid_for(count), block_threads, 0, stream>>>(from, nulls, to, count);
  check_launch("make words of strings");
}

void shared_lengths(cudaStream_t stream, const RawStrings& from, const std::uint8_t* nulls, const RawStrings& other,
                    std::uint64_t* lengths, std::uint64_t count) {
  shared_lengths_kernel<<<grid_for(count), block_threads, 0, stream>>>(from, nulls, other, lengths, count);
  check_launch("find shared lengths");
}

void mix_strings_into_hashes(cudaStream_t stream, const RawStrings& from, std::uint64_t* hashes, std::uint64_t count) {
  mix_strings_into_hashes_kernel<<<grid_for(count), block_threads, 0, stream>>>(from, hashes, count);
  check_launch("hash strings");
}

void count_unequal_strings(cudaStream_t stream, int index_bytes, const RawStrings& left, const void* left_rows,
                           const RawStrings& right, const void* right_rows, std::uint64_t count,
                           std::uint64_t* unequal) {
  with_key(to_key_width(index_bytes), [&](auto index) {
    using Index = typename decltype(index)::type;
    count_unequal_strings_kernel<Index><<<grid_for(count), block_threads, 0, stream>>>(
        left, static_cast<const Index*>(left_rows), right, static_cast<const Index*>(right_rows), count, unequal);
  });
  check_launch("count unequal strings");
}

void mark_unequal_strings(cudaStream_t stream, const RawStrings& from, const std::uint32_t* groups,
                          std::uint32_t* marks, std::uint64_t count) {
  mark_unequal_strings_kernel<<<grid_for(count), block_threads, 0, stream>>>(from, groups, marks, count);
  check_launch("mark unequal strings");
}

}  // namespace linkwise::cuda
