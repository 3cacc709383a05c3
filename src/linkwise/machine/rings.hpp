// Collectives as NCCL does them: along rings through all participants (tartan20 §3.2, figure 18).
//
// Over NVLink, NCCL uses several rings, so that every link carries some traffic; over PCIe one, which crosses
// switches and sockets as needed. Each ring carries its part of the data in pipelined chunks.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

enum class Collective { broadcast, all_gather, reduce, all_reduce, reduce_scatter };

struct Rings {
  std::vector<std::vector<int>> rings;  ///< those that carry something
  std::vector<double> rates;            ///< GB/s that each of them carries
  bool over_links = false;              ///< only GPU links or switches are used, not the host
  double gb_per_s = 0;                  ///< total of all rings, past each GPU
  double step_us = 0;                   ///< latency of the slowest hop
};

/// The set of rings through the given GPUs with the highest total rate: over GPU links if there is such a ring,
/// otherwise one ring in the given order over the host. Up to eight GPUs every ring is considered, for more only the
/// given order.
/// @throws UsageError if there are fewer than two GPUs.
Rings rings_of(Topology& topology, const std::vector<int>& gpus);

/// How often the bytes go past each GPU: 2 (n - 1) / n for an all-reduce, (n - 1) / n for gather and scatter, else 1.
double collective_factor(Collective collective, int gpus);

/// Seconds of a collective on an array of that many bytes.
double collective_seconds(Collective collective, const Rings& rings, int gpus, double bytes);

}  // namespace linkwise
