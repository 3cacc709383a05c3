// Local sort: CUB's least-significant-digit radix sort, on a double buffer so that it needs no third one.
#include <cub/device/device_radix_sort.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

// Calls CUB; `buffers` tells afterwards where the result lies.
template <typename Key, typename Value>
cudaError_t call_cub(void* scratch, std::size_t& scratch_bytes, cub::DoubleBuffer<Key>& keys,
                     cub::DoubleBuffer<Value>& values, std::uint64_t count, BitRange bits, cudaStream_t stream) {
  if constexpr (std::is_same_v<Value, NoValue>)
    return cub::DeviceRadixSort::SortKeys(scratch, scratch_bytes, keys, count, bits.begin, bits.end, stream);
  else
    return cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, values, count, bits.begin, bits.end, stream);
}

}  // namespace

std::uint64_t radix_sort_scratch_bytes(RecordType type, std::uint64_t count) {
  std::size_t bytes = 0;
  with_record(type, [&](auto key, auto value) {
    cub::DoubleBuffer<typename decltype(key)::type> keys;
    cub::DoubleBuffer<typename decltype(value)::type> values;
    check(call_cub(nullptr, bytes, keys, values, count, {0, type.key_bits()}, nullptr),
          "ask for the scratch of a radix sort");
  });
  return bytes;
}

// CUB swaps the two buffers once per eight-bit digit, or only once where a single tile suffices. It reports the
// final buffer only after the call, but the caller must know it before. So this function predicts it, and
// `radix_sort` copies the result if the prediction was wrong.
bool radix_sort_lands_in_secondary(RecordType, std::uint64_t, BitRange bits) {
  return (bits.end - bits.begin + 7) / 8 % 2 == 1;
}

void radix_sort(cudaStream_t stream, RecordType type, RawRecords primary, RawRecords secondary, std::uint64_t count,
                BitRange bits, void* scratch, std::uint64_t scratch_bytes) {
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    cub::DoubleBuffer<Key> keys(static_cast<Key*>(primary.keys), static_cast<Key*>(secondary.keys));
    cub::DoubleBuffer<Value> values(static_cast<Value*>(primary.values), static_cast<Value*>(secondary.values));
    std::size_t bytes = scratch_bytes;
    check(call_cub(scratch, bytes, keys, values, count, bits, stream), "radix sort");
    const int expected = radix_sort_lands_in_secondary(type, count, bits) ? 1 : 0;
    if (keys.selector == expected) return;
    const auto move = [&](const void* from, void* to, std::uint64_t size) {
      check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream), "copy the sorted records");
    };
    move(keys.Current(), keys.Alternate(), count * sizeof(Key));
    if constexpr (!std::is_same_v<Value, NoValue>) move(values.Current(), values.Alternate(), count * sizeof(Value));
  });
}

}  // namespace linkwise::cuda
