// One thread per element: encode, decode, iota, sample, mark changes and ties, list them, refine ranks, unify floats.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/pieces.hpp"

namespace linkwise::cuda {
namespace {

template <typename Bits>
using CodeOf = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;

template <typename Bits>
__global__ void encode_kernel(const Bits* from, CodeOf<Bits>* to, std::uint64_t count, KeyClass key_class,
                              bool descending) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    to[i] = encode_bits<Bits>(from[i], key_class, descending);
}

template <typename Bits>
__global__ void decode_kernel(const CodeOf<Bits>* from, Bits* to, std::uint64_t count, KeyClass key_class,
                              bool descending) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    to[i] = decode_bits<Bits>(static_cast<Bits>(from[i]), key_class, descending);
}

template <typename Value>
__global__ void iota_kernel(Value* to, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    if constexpr (std::is_same_v<Value, Value16>) to[i] = Value16{first + i, 0};
    else to[i] = static_cast<Value>(first + i);
  }
}

template <typename Bits>
__global__ void sample_kernel(const Bits* keys, std::uint64_t count, std::uint64_t samples, std::uint64_t seed,
                              std::uint64_t tag_base, KeyClass key_class, bool descending, CodeOf<Bits>* codes,
                              std::uint64_t* tags) {
  for (std::uint64_t i = global_thread(); i < samples; i += grid_threads()) {
    const std::uint64_t position = sample_position(i, samples, count, seed);
    codes[i] = encode_bits<Bits>(keys[position], key_class, descending);
    tags[i] = tag_base + position;
  }
}

template <typename Bits>
__global__ void mark_changes_kernel(const Bits* elements, const Bits* before, std::uint32_t* marks,
                                    std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const Bits* other = i > 0 ? elements + i - 1 : before;
    if (other != nullptr && elements[i] != *other) marks[i] = 1;
  }
}

__global__ void list_marked_kernel(const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first,
                                   std::uint64_t* to, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    if (marks[i] != 0) to[sums[i]] = first + i;
}

__global__ void mark_ties_kernel(const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
                                 std::uint32_t* marks, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    marks[i] = is_tied(words, changes, next, i, count) ? 1 : 0;
}

__global__ void widen_ranks_kernel(const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) to[i] = std::uint64_t{ranks[i]} << 32;
}

__global__ void refine_ranks_kernel(const std::uint64_t* positions, std::uint64_t first, const std::uint32_t* finer,
                                    std::uint64_t* ranks, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) ranks[positions[i] - first] += finer[i];
}

template <typename Bits>
__global__ void unify_floats_kernel(CodeOf<Bits>* codes, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) codes[i] = unified_float<Bits>(codes[i]);
}

}  // namespace

KernelList elementwise_kernels() {
  KernelList list{address(iota_kernel<std::uint32_t>), address(iota_kernel<std::uint64_t>),
                  address(iota_kernel<Value16>),       address(list_marked_kernel),
                  address(mark_ties_kernel),           address(widen_ranks_kernel),
                  address(refine_ranks_kernel)};
  for (const int bytes : {1, 2, 4, 8})
    with_bits(bytes, [&](auto tag) {
      using Bits = typename decltype(tag)::type;
      list.insert(list.end(), {address(encode_kernel<Bits>), address(decode_kernel<Bits>), address(sample_kernel<Bits>),
                               address(mark_changes_kernel<Bits>)});
      if constexpr (sizeof(Bits) >= 2) list.push_back(address(unify_floats_kernel<Bits>));
    });
  return list;
}

void encode(cudaStream_t stream, KeyType type, bool descending, const void* from, void* to, std::uint64_t count) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    encode_kernel<Bits><<<grid_for(count), block_threads, 0, stream>>>(
        static_cast<const Bits*>(from), static_cast<CodeOf<Bits>*>(to), count, key_class(type), descending);
  });
  check_launch("encode");
}

void decode(cudaStream_t stream, KeyType type, bool descending, const void* from, void* to, std::uint64_t count) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    decode_kernel<Bits><<<grid_for(count), block_threads, 0, stream>>>(
        static_cast<const CodeOf<Bits>*>(from), static_cast<Bits*>(to), count, key_class(type), descending);
  });
  check_launch("decode");
}

void iota(cudaStream_t stream, ValueWidth width, void* to, std::uint64_t first, std::uint64_t count) {
  with_value(width, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<Value, NoValue>)
      iota_kernel<Value><<<grid_for(count), block_threads, 0, stream>>>(static_cast<Value*>(to), first, count);
  });
  check_launch("iota");
}

void sample(cudaStream_t stream, KeyType type, bool descending, const void* keys, std::uint64_t count,
            std::uint64_t samples, std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    sample_kernel<Bits><<<grid_for(samples), block_threads, 0, stream>>>(static_cast<const Bits*>(keys), count, samples,
                                                                         seed, tag_base, key_class(type), descending,
                                                                         static_cast<CodeOf<Bits>*>(codes), tags);
  });
  check_launch("sample");
}

void mark_changes(cudaStream_t stream, int element_bytes, const void* elements, const void* before,
                  std::uint32_t* marks, std::uint64_t count) {
  with_bits(element_bytes, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    mark_changes_kernel<Bits><<<grid_for(count), block_threads, 0, stream>>>(
        static_cast<const Bits*>(elements), static_cast<const Bits*>(before), marks, count);
  });
  check_launch("mark changes");
}

void list_marked(cudaStream_t stream, const std::uint32_t* marks, const std::uint64_t* sums, std::uint64_t first,
                 std::uint64_t* to, std::uint64_t count) {
  list_marked_kernel<<<grid_for(count), block_threads, 0, stream>>>(marks, sums, first, to, count);
  check_launch("list marked");
}

void mark_ties(cudaStream_t stream, const std::uint64_t* words, const std::uint32_t* changes, const std::uint32_t* next,
               std::uint32_t* marks, std::uint64_t count) {
  mark_ties_kernel<<<grid_for(count), block_threads, 0, stream>>>(words, changes, next, marks, count);
  check_launch("mark ties");
}

void widen_ranks(cudaStream_t stream, const std::uint32_t* ranks, std::uint64_t* to, std::uint64_t count) {
  widen_ranks_kernel<<<grid_for(count), block_threads, 0, stream>>>(ranks, to, count);
  check_launch("widen ranks");
}

void refine_ranks(cudaStream_t stream, const std::uint64_t* positions, std::uint64_t first, const std::uint32_t* finer,
                  std::uint64_t* ranks, std::uint64_t count) {
  refine_ranks_kernel<<<grid_for(count), block_threads, 0, stream>>>(positions, first, finer, ranks, count);
  check_launch("refine ranks");
}

void unify_floats(cudaStream_t stream, KeyType type, void* codes, std::uint64_t count) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    if constexpr (sizeof(Bits) >= 2)
      unify_floats_kernel<Bits>
          <<<grid_for(count), block_threads, 0, stream>>>(static_cast<CodeOf<Bits>*>(codes), count);
  });
  check_launch("unify floats");
}

}  // namespace linkwise::cuda
