// One thread per element: encode, decode, iota, sample, mark changes and list them, unify floats.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"

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

template <typename Bits>
__global__ void unify_floats_kernel(CodeOf<Bits>* codes, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) codes[i] = unified_float<Bits>(codes[i]);
}

}  // namespace

KernelList elementwise_kernels() {
  KernelList list{address(iota_kernel<std::uint32_t>), address(iota_kernel<std::uint64_t>),
                  address(iota_kernel<Value16>), address(list_marked_kernel)};
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
