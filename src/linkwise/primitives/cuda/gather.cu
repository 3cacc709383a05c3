// Gathers rows by their numbers: elements and bits.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

template <typename Element, typename Index>
__global__ void gather_kernel(const __grid_constant__ RawPieces from, const Index* indices, Element* to,
                              std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const Index index = indices[i];
    to[i] = index == all_ones<Index>() ? all_ones<Element>() : element_of<Element>(from, index);
  }
}

template <typename Index>
__global__ void coalesce_rows_kernel(const Index* first, const Index* second, std::uint64_t offset, Index* to,
                                     std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    to[i] = coalesced(first[i], second[i], offset);
}

// A thread makes 16 bytes of a record, so that neighbours write next to each other.
template <int record_bytes>
__global__ void pack_rows_kernel(const RawFields from, PackedRow<16>* halves, std::uint64_t rows) {
  constexpr unsigned in_record = record_bytes / 16;
  for (std::uint64_t i = global_thread(); i < rows * in_record; i += grid_threads()) {
    const int first = static_cast<int>(i % in_record) * 16;
    PackedRow<16> half;
#pragma unroll
    for (int f = 0; f < RawFields::most; ++f)
      if (f < from.count && first <= from.offset[f] && from.offset[f] < first + 16)
        half.set(from, f, i / in_record, first);
    halves[i] = half;
  }
}

template <typename Row, typename Index>
__global__ void gather_packed_kernel(const __grid_constant__ RawPieces from, const Index* indices, const RawFields to,
                                     std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) {
    const Index index = indices[i];
    Row row;
    if (index == all_ones<Index>())
      for (std::uint64_t& word : row.word) word = ~std::uint64_t{0};
    else row = element_of<Row>(from, index);
#pragma unroll
    for (int f = 0; f < RawFields::most; ++f)
      if (f < to.count) row.get(to, f, i);
  }
}

// Each warp makes one word at a time.
template <typename Index>
__global__ void gather_bits_kernel(const std::uint32_t* bits, const Index* indices, std::uint32_t* to,
                                   std::uint64_t count) {
  const std::uint64_t whole_warps = (count + 31) / 32 * 32;
  for (std::uint64_t i = global_thread(); i < whole_warps; i += grid_threads()) {
    const Index index = i < count ? indices[i] : all_ones<Index>();
    const bool bit = index != all_ones<Index>() && (bits == nullptr || is_set(bits, index));
    const std::uint32_t word = __ballot_sync(~0U, bit);
    if (threadIdx.x % 32 == 0) to[i / 32] = word;
  }
}

template <typename From, typename To>
__global__ void shift_offsets_kernel(const From* from, To* to, std::uint64_t count, std::uint64_t delta) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) to[i] = static_cast<To>(from[i] + delta);
}

__global__ void expand_bits_kernel(const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes, std::uint8_t* to,
                                   std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    to[i] = is_set(bits, first + i) ? bytes.set : bytes.clear;
}

// Each warp makes one word at a time.
__global__ void pack_bits_kernel(const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits, std::uint64_t count,
                                 std::uint64_t* num_set) {
  const std::uint64_t whole_warps = (count + 31) / 32 * 32;
  std::uint64_t set_here = 0;
  for (std::uint64_t i = global_thread(); i < whole_warps; i += grid_threads()) {
    const std::uint32_t word = __ballot_sync(~0U, i < count && bytes[i] == set);
    set_here += static_cast<std::uint64_t>(__popc(word));
    if (threadIdx.x % 32 == 0) bits[i / 32] = word;
  }
  if (threadIdx.x % 32 == 0 && set_here > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(num_set), static_cast<unsigned long long>(set_here));
}

template <typename Key>
__global__ void mix_into_hashes_kernel(const Key* elements, std::uint64_t* hashes, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    hashes[i] = row_hash_with(hashes[i], elements[i]);
}

template <typename Key, typename Index>
__global__ void count_unequal_kernel(const __grid_constant__ RawPieces left, const Index* left_rows,
                                     const __grid_constant__ RawPieces right, const Index* right_rows,
                                     std::uint64_t count, std::uint64_t* unequal) {
  std::uint64_t mine = 0;
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    mine += differs<Key>(left, left_rows[i], right, right_rows[i]) ? 1 : 0;
  if (mine > 0) atomicAdd(reinterpret_cast<unsigned long long*>(unequal), static_cast<unsigned long long>(mine));
}

template <typename Element>
__global__ void fill_nulls_kernel(const std::uint8_t* nulls, Element* elements, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    if (nulls[i] != 0) elements[i] = all_ones<Element>();
}

template <typename Body>
void with_element(int bytes, Body&& body) {
  if (bytes == 16) body(Tag<Value16>{});
  else with_bits(bytes, body);
}

}  // namespace

KernelList gather_kernels() {
  KernelList list{address(expand_bits_kernel), address(pack_bits_kernel),
                  address(mix_into_hashes_kernel<std::uint32_t>), address(mix_into_hashes_kernel<std::uint64_t>)};
  for (const int index_bytes : {4, 8})
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Index = typename decltype(index)::type;
      list.insert(list.end(), {address(gather_bits_kernel<Index>), address(coalesce_rows_kernel<Index>),
                               address(shift_offsets_kernel<Index, std::uint32_t>),
                               address(shift_offsets_kernel<Index, std::uint64_t>)});
      list.insert(list.end(), {address(count_unequal_kernel<std::uint32_t, Index>),
                               address(count_unequal_kernel<std::uint64_t, Index>)});
      for (const int bytes : {1, 2, 4, 8, 16})
        with_element(bytes, [&](auto element) {
          list.push_back(address(gather_kernel<typename decltype(element)::type, Index>));
        });
      for (const int bytes : {1, 2, 4, 8})
        with_bits(bytes,
                  [&](auto element) { list.push_back(address(fill_nulls_kernel<typename decltype(element)::type>)); });
      for (const int bytes : {16, 32})
        with_record_bytes(bytes,
                          [&](auto row) { list.push_back(address(gather_packed_kernel<decltype(row), Index>)); });
    });
  for (const int bytes : {16, 32})
    with_record_bytes(bytes, [&](auto row) { list.push_back(address(pack_rows_kernel<sizeof row>)); });
  return list;
}

void pack_rows(cudaStream_t stream, const RawFields& from, int record_bytes, void* records, std::uint64_t rows) {
  with_record_bytes(record_bytes, [&](auto row) {
    pack_rows_kernel<sizeof row><<<grid_for(rows * sizeof row / 16), block_threads, 0, stream>>>(
        from, static_cast<PackedRow<16>*>(records), rows);
  });
  check_launch("pack rows");
}

void gather_packed(cudaStream_t stream, int index_bytes, const RawPieces& from, int record_bytes, const void* indices,
                   const RawFields& to, std::uint64_t count) {
  with_record_bytes(record_bytes, [&](auto row) {
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Index = typename decltype(index)::type;
      gather_packed_kernel<decltype(row)>
          <<<grid_for(count), block_threads, 0, stream>>>(from, static_cast<const Index*>(indices), to, count);
    });
  });
  check_launch("gather rows");
}

void gather(cudaStream_t stream, int element_bytes, int index_bytes, const RawPieces& from, const void* indices,
            void* to, std::uint64_t count) {
  with_element(element_bytes, [&](auto element) {
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Element = typename decltype(element)::type;
      using Index = typename decltype(index)::type;
      gather_kernel<Element, Index><<<grid_for(count), block_threads, 0, stream>>>(
          from, static_cast<const Index*>(indices), static_cast<Element*>(to), count);
    });
  });
  check_launch("gather");
}

void coalesce_rows(cudaStream_t stream, int index_bytes, const void* first, const void* second, std::uint64_t offset,
                   void* to, std::uint64_t count) {
  with_key(to_key_width(index_bytes), [&](auto index) {
    using Index = typename decltype(index)::type;
    coalesce_rows_kernel<Index><<<grid_for(count), block_threads, 0, stream>>>(
        static_cast<const Index*>(first), static_cast<const Index*>(second), offset, static_cast<Index*>(to), count);
  });
  check_launch("coalesce rows");
}

void gather_bits(cudaStream_t stream, int index_bytes, const std::uint32_t* bits, const void* indices,
                 std::uint32_t* to, std::uint64_t count) {
  with_key(to_key_width(index_bytes), [&](auto index) {
    using Index = typename decltype(index)::type;
    gather_bits_kernel<Index>
        <<<grid_for(count), block_threads, 0, stream>>>(bits, static_cast<const Index*>(indices), to, count);
  });
  check_launch("gather bits");
}

void shift_offsets(cudaStream_t stream, int from_bytes, const void* from, int to_bytes, void* to, std::uint64_t count,
                   std::uint64_t delta) {
  with_key(to_key_width(from_bytes), [&](auto narrow) {
    with_key(to_key_width(to_bytes), [&](auto wide) {
      using From = typename decltype(narrow)::type;
      using To = typename decltype(wide)::type;
      shift_offsets_kernel<From, To><<<grid_for(count), block_threads, 0, stream>>>(static_cast<const From*>(from),
                                                                                    static_cast<To*>(to), count, delta);
    });
  });
  check_launch("shift offsets");
}

void expand_bits(cudaStream_t stream, const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes,
                 std::uint8_t* to, std::uint64_t count) {
  expand_bits_kernel<<<grid_for(count), block_threads, 0, stream>>>(bits, first, bytes, to, count);
  check_launch("make bytes of bits");
}

void pack_bits(cudaStream_t stream, const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits,
               std::uint64_t count, std::uint64_t* num_set) {
  pack_bits_kernel<<<grid_for(count), block_threads, 0, stream>>>(bytes, set, bits, count, num_set);
  check_launch("pack bits");
}

void mix_into_hashes(cudaStream_t stream, KeyWidth width, const void* elements, std::uint64_t* hashes,
                     std::uint64_t count) {
  with_key(width, [&](auto key) {
    using Key = typename decltype(key)::type;
    mix_into_hashes_kernel<<<grid_for(count), block_threads, 0, stream>>>(static_cast<const Key*>(elements), hashes,
                                                                          count);
  });
  check_launch("hash rows");
}

void count_unequal(cudaStream_t stream, KeyWidth width, int index_bytes, const RawPieces& left, const void* left_rows,
                   const RawPieces& right, const void* right_rows, std::uint64_t count, std::uint64_t* unequal) {
  with_key(width, [&](auto key) {
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Key = typename decltype(key)::type;
      using Index = typename decltype(index)::type;
      count_unequal_kernel<Key, Index><<<grid_for(count), block_threads, 0, stream>>>(
          left, static_cast<const Index*>(left_rows), right, static_cast<const Index*>(right_rows), count, unequal);
    });
  });
  check_launch("count unequal rows");
}

void fill_nulls(cudaStream_t stream, int element_bytes, const std::uint8_t* nulls, void* elements,
                std::uint64_t count) {
  with_bits(element_bytes, [&](auto tag) {
    using Element = typename decltype(tag)::type;
    fill_nulls_kernel<<<grid_for(count), block_threads, 0, stream>>>(nulls, static_cast<Element*>(elements), count);
  });
  check_launch("fill nulls");
}

}  // namespace linkwise::cuda
