// Radix sort by the most significant digits first, of records with keys of 64 bits and values.
#include "linkwise/primitives/cuda/msd_sort/record_sort.cuh"

template struct linkwise::cuda::msd::RecordSort<std::uint64_t>;
