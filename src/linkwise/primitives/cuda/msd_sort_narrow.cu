// Radix sort by the most significant digits first: the steps that take narrow keys.
#include "linkwise/primitives/cuda/msd_sort/msd_sort.cuh"

namespace linkwise::cuda::msd {

template void launch_count<std::uint64_t, Way::narrow>(cudaStream_t, const Columns<std::uint64_t>&, const State&, int);
template void launch_partition<std::uint64_t, NoValue, Way::to_narrow>(cudaStream_t, const Columns<std::uint64_t>&,
                                                                       const State&, int);
template void launch_partition<std::uint64_t, NoValue, Way::narrow>(cudaStream_t, const Columns<std::uint64_t>&,
                                                                    const State&, int);
template void launch_pages<std::uint64_t, NarrowKey>(cudaStream_t, const Columns<std::uint64_t>&, const State&);
template void finish_sort<std::uint64_t, NoValue, Way::narrow>(cudaStream_t, Columns<std::uint64_t>, State);

std::vector<const void*> kernels_of_narrow_keys() {
  using Key = std::uint64_t;
  static_assert(block_bytes<Key, NoValue, Way::narrow> <= shared_on_hopper);
  return {address(count_spans<Key, Way::narrow>),
          address(partition_spans<Key, NoValue, Way::to_narrow>),
          address(partition_spans<Key, NoValue, Way::narrow>),
          address(partition_into_pages<Key, NarrowKey>),
          address(split_pages<Key, NarrowKey>),
          address(clear_result<Key>),
          address(finish<Key, NoValue, Way::narrow>),
          address(finish_hard<Key, NoValue, Way::narrow>),
          address(sort_what_is_left<Key, NoValue, Way::narrow>)};
}

}  // namespace linkwise::cuda::msd
