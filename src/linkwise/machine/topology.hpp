// A machine compiled for questions: which resources does a transfer use, and what does each flow get
// when several run at once?
//
// Every direction of a link, every duplex cap and every constraint becomes a resource. A transfer uses
// resources with weights; concurrent transfers share them max-min fairly under Σ weight · rate ≤ capacity.
// With unit weights this is the model that Tartan (tartan20 §5) asks for; the weights are what makes it
// match machines whose remote traffic costs a shared resource more than local traffic does.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/machine/place.hpp"

namespace linkwise {

struct Use {
  int resource = 0;
  double weight = 1;
};

struct Resource {
  std::string name;
  Capacity capacity;
};

/// What one transfer costs: its start-up and the resources that its bytes go through.
struct Route {
  double latency_us = 0;
  std::vector<Use> uses;
  std::vector<int> links;  ///< indices into Machine::links, in order; empty for a local copy
};

class Topology {
 public:
  /// Takes a copy of the machine. @throws UsageError if it is not valid.
  explicit Topology(Machine machine);

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] std::span<const Resource> resources() const { return resources_; }
  /// The computing resource of a place, with capacity 1: the share of the processor that work gets.
  [[nodiscard]] int processor_of(Place place) const;

  /// The route from one place to another; `pageable` says that a host end is not pinned.
  /// @throws UsageError if the machine has no such place or nothing connects them.
  const Route& route(Place from, Place to, bool pageable = false);
  /// Whether the route between two GPUs goes through a socket or a PCIe switch, not only over GPU links and
  /// NVSwitches.
  bool meet_at_the_host(int a, int b);
  /// Whether a GPU's kernels can load from and store to another one's memory. If not, copies between them go through
  /// host memory.
  [[nodiscard]] bool can_reach(int a, int b) const;
  [[nodiscard]] bool reach_each_other(std::span<const int> gpus) const;

 private:
  int add_resource(std::string name, Capacity capacity);
  std::vector<int> shortest_path(int from, int to) const;
  int node_of(Place place) const;
  Route build_route(Place from, Place to, bool pageable) const;
  bool is_over_the_host(const std::vector<int>& links) const;
  void follow(Route& route, int from, int to) const;

  Machine machine_;
  std::vector<Resource> resources_;
  std::vector<int> gpu_nodes_;
  std::vector<int> memory_nodes_;
  int first_local_ = 0;
  int first_processor_ = 0;
  int first_constraint_ = 0;
  std::map<std::string, int> pageable_;           // by computer, where a network joins several
  int first_staged_ = 0;                          // by GPU
  std::vector<int> forward_, backward_, duplex_;  // by link; duplex_ is -1 where there is none
  std::map<std::pair<std::pair<Place, Place>, bool>, Route> routes_;
};

/// The capacity when `flows` flows are active.
double capacity_at(const Capacity& capacity, int flows);

/// The max-min fair rate of each flow: all rates rise together, and a flow stops when a resource that it
/// uses is full (progressive filling). Rates are in the unit of the capacities; a flow that uses nothing
/// gets infinity. O(flows · uses · bottlenecks).
std::vector<double> fair_rates(std::span<const Resource> resources, std::span<const std::vector<Use>* const> flows);

}  // namespace linkwise
