// Collectives as NCCL does them: along rings through all participants (tartan20 §3.2, figure 18).
//
// Over NVLink it lays several rings, so that every link carries some; over PCIe one, which crosses switches and sockets
// as it must. Each ring carries its part of the data in chunks that follow each other.
#pragma once

#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

enum class Collective { broadcast, all_gather, reduce, all_reduce, reduce_scatter };

struct Rings {
  std::vector<std::vector<int>> rings;  ///< those that carry something, each from the lowest GPU on
  std::vector<double> rates;            ///< GB/s that each of them carries
  bool over_links = false;              ///< GPU links or switches alone, and not the host
  double gb_per_s = 0;                  ///< that all rings together carry past each GPU
  double step_us = 0;                   ///< from one GPU to the next, the slowest
};

/// The rings through the GPUs that together carry most: over GPU links if a ring of those exists, else one ring in the
/// given order over the host. Up to eight GPUs any ring is considered, of more the given order alone.
/// @throws UsageError if there are fewer than two GPUs.
Rings rings_of(Topology& topology, const std::vector<int>& gpus);

/// How often the bytes go past each GPU: 2 (n - 1) / n for an all-reduce, (n - 1) / n for gather and scatter, else 1.
double collective_factor(Collective collective, int gpus);

/// Seconds of a collective on an array of that many bytes.
double collective_seconds(Collective collective, const Rings& rings, int gpus, double bytes);

}  // namespace linkwise
