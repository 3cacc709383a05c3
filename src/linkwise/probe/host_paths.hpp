// What GPU sets that copy at once reveal: which GPUs share a way to the host, and what limits all of them together.
//
// In a virtual machine every GPU may claim the same NUMA node while half of them share one slow way. Two GPUs that
// together carry less than twice what the slower of them carries alone share something (each copies as much, so the
// slower one says when both are done); what hangs together by sharing is a group, and its limit is what its sets were
// seen to carry, by how many GPUs copy. Sets that are still slower than that share the host's memory: Σ weight · rate ≤
// capacity, where a byte of one group may cost more than one of another. The weights are a least-squares fit over those
// sets, which is linear in weight over capacity.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/machine.hpp"

namespace linkwise {

/// Which ways a set copies.
enum class HostDirection { in, out, both };

/// GPUs that copied the same number of bytes each, all at once, between the host and them.
struct HostObservation {
  HostDirection direction = HostDirection::in;
  std::vector<int> gpus;
  double gb_per_s = 0;  ///< in all, both directions together
};

struct HostPaths {
  /// By GPU; alone, per direction, and both directions together.
  std::vector<double> in, out, both;
  std::vector<std::vector<int>> groups;  ///< of two GPUs or more that share a way
  std::vector<Constraint> constraints;   ///< on top of each GPU's own link
  std::vector<std::string> findings;     ///< what a person should know
};

/// What the constraint of a group's way is called.
std::string name_of_way(const std::vector<int>& group, HostDirection direction);

/// Needs every GPU alone in each direction, and all pairs in and out; the more other sets, the better.
/// @throws UsageError if an observation that it needs is missing.
HostPaths infer_host_paths(int num_gpus, const std::vector<HostObservation>& observations);

}  // namespace linkwise
