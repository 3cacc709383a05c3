// Compares the samples of both sides of a join, in one thread block: the host needs four numbers soon, and would
// take a millisecond or two to compute them itself.
#pragma once

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/hash_join_steps.hpp"

namespace linkwise::cuda::hash {

// Adds a key to the table; returns how often it has been seen by now, this time included.
__device__ inline unsigned long long add_sample(const RawSamples& samples, std::uint64_t* table, std::uint64_t tag) {
  for (std::uint32_t at = samples.first_slot(tag);; at = samples.next_slot(at)) {
    auto* const slot = reinterpret_cast<unsigned long long*>(table + at);
    const unsigned long long found = atomicCAS(slot, 0ULL, tag | 1);
    if (found == 0) return 1;
    if (RawSamples::is_of(found, tag)) return RawSamples::times(atomicAdd(slot, 1ULL)) + 1;
  }
}

// How often a key has been seen; call after all have been added.
__device__ inline std::uint64_t times_seen(const RawSamples& samples, const std::uint64_t* table, std::uint64_t tag) {
  for (std::uint32_t at = samples.first_slot(tag);; at = samples.next_slot(at)) {
    const std::uint64_t found = __ldcg(reinterpret_cast<const unsigned long long*>(table + at));
    if (found == 0 || RawSamples::is_of(found, tag)) return RawSamples::times(found);
  }
}

template <typename Key>
__global__ void __launch_bounds__(1024) compare_samples_kernel(RawSamples samples, SeenKeys* seen) {
  __shared__ unsigned long long build_most, probe_most, pairs, repeated;
  if (threadIdx.x == 0) build_most = probe_most = pairs = repeated = 0;
  __syncthreads();
  const auto add = [&](const void* codes, std::uint64_t i, std::uint64_t* table, unsigned long long& most) {
    const std::uint64_t tag = samples.tag(static_cast<const Key*>(codes)[i]);
    atomicMax(&most, add_sample(samples, table, tag));
    return tag;
  };
  for (std::uint64_t i = threadIdx.x; i < samples.build_count; i += blockDim.x)
    add(samples.build, i, samples.build_table, build_most);
  __syncthreads();
  for (std::uint64_t i = threadIdx.x; i < samples.probe_count; i += blockDim.x) {
    const std::uint64_t tag = add(samples.probe, i, samples.probe_table, probe_most);
    const unsigned long long times = times_seen(samples, samples.build_table, tag);
    if (times > 0) atomicAdd(&pairs, times);
  }
  __syncthreads();
  for (std::uint64_t i = threadIdx.x; i < samples.probe_count; i += blockDim.x)
    if (times_seen(samples, samples.probe_table, samples.tag(static_cast<const Key*>(samples.probe)[i])) > 1)
      atomicAdd(&repeated, 1ULL);
  __syncthreads();
  if (threadIdx.x == 0) *seen = {build_most, probe_most, pairs, repeated};
}

}  // namespace linkwise::cuda::hash
