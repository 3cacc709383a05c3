// Infers from concurrent copies of GPU sets which GPUs share a path to the host, and what limits all GPUs together.
//
// In a virtual machine every GPU may claim the same NUMA node while half of them share one slow path. Two GPUs share
// something if their combined rate is below twice the slower one's rate alone (both copy the same number of bytes, so
// the slower one determines when both are done). Groups are the connected components of this relation, and a group's
// capacity is the rate measured for sets within it, by the number of concurrent flows. Sets that are still slower
// than these capacities allow are limited by host memory: Σ weight · rate ≤ capacity, where a byte of one group may
// cost more than one of another. The weights are a least-squares fit over those sets, which is linear in weight over
// capacity.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/machine.hpp"

namespace linkwise {

/// The direction in which a set copies, seen from the GPUs.
enum class HostDirection { in, out, both };

/// The rate of GPUs that copied at once from or to the host, each the same number of bytes.
struct HostObservation {
  HostDirection direction = HostDirection::in;
  std::vector<int> gpus;
  double gb_per_s = 0;  ///< total, both directions together
};

struct HostPaths {
  /// For each GPU, GB/s when it copies alone: in, out, and both directions at once.
  std::vector<double> in, out, both;
  std::vector<std::vector<int>> groups;  ///< of two or more GPUs that share a path
  std::vector<Constraint> constraints;   ///< on top of each GPU's own link
  std::vector<std::string> findings;     ///< messages for the user
};

/// The name of the constraint on a group's shared path.
std::string name_of_way(const std::vector<int>& group, HostDirection direction);

/// Needs observations of each GPU alone in, out and both ways, and of all pairs in and out; more sets improve the
/// fit.
/// @throws UsageError if an observation that it needs is missing.
HostPaths infer_host_paths(int num_gpus, const std::vector<HostObservation>& observations);

}  // namespace linkwise
