// Merging two sorted sequences on one device: CUB's merge path.
#include <cub/device/device_merge.cuh>

#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/dispatch.hpp"

namespace linkwise::cuda {
namespace {

cudaError_t call_cub(void* scratch, std::size_t& scratch_bytes, RecordType type, RawRecords left,
                     std::uint64_t left_count, RawRecords right, std::uint64_t right_count, RawRecords to,
                     cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  const auto lefts = static_cast<std::int64_t>(left_count), rights = static_cast<std::int64_t>(right_count);
  with_record(type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    const auto *left_keys = static_cast<const Key*>(left.keys), *right_keys = static_cast<const Key*>(right.keys);
    if constexpr (std::is_same_v<Value, NoValue>)
      status = cub::DeviceMerge::MergeKeys(scratch, scratch_bytes, left_keys, lefts, right_keys, rights,
                                           static_cast<Key*>(to.keys), {}, stream);
    else
      status = cub::DeviceMerge::MergePairs(scratch, scratch_bytes, left_keys, static_cast<const Value*>(left.values),
                                            lefts, right_keys, static_cast<const Value*>(right.values), rights,
                                            static_cast<Key*>(to.keys), static_cast<Value*>(to.values), {}, stream);
  });
  return status;
}

}  // namespace

std::uint64_t merge_scratch_bytes(RecordType type, std::uint64_t left, std::uint64_t right) {
  std::size_t bytes = 0;
  check(call_cub(nullptr, bytes, type, {}, left, {}, right, {}, nullptr), "ask for the scratch of a merge");
  return bytes;
}

void merge(cudaStream_t stream, RecordType type, RawRecords left, std::uint64_t left_count, RawRecords right,
           std::uint64_t right_count, RawRecords to, void* scratch, std::uint64_t scratch_bytes) {
  std::size_t bytes = scratch_bytes;
  check(call_cub(scratch, bytes, type, left, left_count, right, right_count, to, stream), "merge");
}

}  // namespace linkwise::cuda
