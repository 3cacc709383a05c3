#include "linkwise/probe/families.hpp"

#include "linkwise/probe/cuda/measuring.hpp"

namespace linkwise {

std::vector<ProbeFamily> cuda_families() {
  return {
      {"host memory kinds", "pageable, pinned, registered and write-combined memory of each NUMA node, each GPU",
       cuda::host_memory_kinds},
      {"host cache", "copies in of what is in the CPU's caches, and of what was flushed from them",
       cuda::cache_flushing},
      {"host to host", "pageable to pinned copies by one thread and by all, between NUMA nodes", cuda::host_to_host},
      {"host zero-copy", "a kernel reads and writes pinned memory of each NUMA node", cuda::zero_copy},
      {"unified demand", "managed memory that moves when it is touched: by a GPU, by 1 … n host threads, by a peer",
       cuda::unified_demand},
      {"unified prefetch", "managed memory that is prefetched: in, out, and between GPUs", cuda::unified_prefetch},
      {"host memory by size", "pageable and registered memory of each NUMA node, 4 KiB … 4 GiB, in, out and both ways",
       cuda::host_memory_curves},
      {"host to host by size", "pageable to pinned copies between NUMA nodes, of cached and of flushed memory",
       cuda::host_to_host_curves},
      {"host zero-copy by size", "a kernel reads and writes words of each NUMA node's memory, which was flushed",
       cuda::zero_copy_curves},
      {"unified demand by size", "one byte of each page written where it does not lie: by a GPU, by threads, by both",
       cuda::unified_demand_curves},
      {"unified prefetch by size",
       "managed memory that is prefetched to and from each NUMA node, both ways, and a peer",
       cuda::unified_prefetch_curves},
      {"peer off by size", "copies between two GPUs without peer access, one way and both", cuda::peer_off_curves},
      {"peer access", "copies between GPUs with peer access on and off", cuda::peer_access},
      {"peer kernels", "a kernel stores to a peer, loads from it, and stores through the bulk copy engine",
       cuda::peer_kernels},
      {"peer store size", "stores of 4 … 256 bytes to a peer, each to another place", cuda::store_sizes},
      {"latency", "following a chain of cache lines in own, peer and host memory", cuda::latencies},
      {"strided copies", "2-D and 3-D copies of short rows, in, out and between GPUs", cuda::strided_copies},
      {"halo faces", "faces of a 3-D grid to a peer: by 3-D copies, by kernels, and packed, copied and unpacked",
       cuda::halo_faces},
      {"partial chunks", "the first bytes of chunks, pushed to a peer and pulled from it", cuda::partial_chunks},
      {"launch costs", "kernel and graph launches, events, waits between streams", cuda::launch_costs},
      {"allocation costs", "device, pinned and managed allocation, and pinning of what is there",
       cuda::allocation_costs},
      {"collectives", "NCCL's broadcast, all-gather, reduce, all-reduce, reduce-scatter and all-to-all, 2 GPUs to all",
       cuda::collectives},
  };
}

}  // namespace linkwise
