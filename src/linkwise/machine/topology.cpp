#include "linkwise/machine/topology.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

bool matches(const std::vector<int>& selected, int index) {
  return selected.empty() || std::ranges::find(selected, index) != selected.end();
}

Traffic traffic_between(Place from, Place to) {
  if (from.is_gpu() && to.is_gpu()) return Traffic::peer;
  return to.is_gpu() ? Traffic::host_to_device : Traffic::device_to_host;
}

double startup_us(const CopyStartup& startup, Place from, Place to) {
  if (from == to) return startup.local_us;
  switch (traffic_between(from, to)) {
    case Traffic::host_to_device: return startup.host_to_device_us;
    case Traffic::device_to_host: return startup.device_to_host_us;
    case Traffic::peer: return startup.peer_us;
  }
  return 0;
}

// The prefix of the computer that a node belongs to, if a network joins several: "node2/" for "node2/gpu0"; otherwise
// "".
std::string computer_of(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

}  // namespace

Topology::Topology(Machine machine) : machine_(std::move(machine)) {
  machine_.validate();
  for (int i = 0; i < static_cast<int>(machine_.nodes.size()); ++i) {
    if (machine_.nodes[i].kind == NodeKind::gpu) gpu_nodes_.push_back(i);
    if (machine_.nodes[i].kind == NodeKind::memory) memory_nodes_.push_back(i);
  }
  for (const Link& link : machine_.links) {
    const std::string &a = machine_.nodes[link.a].name, &b = machine_.nodes[link.b].name;
    forward_.push_back(add_resource(a + "→" + b, link.forward));
    backward_.push_back(add_resource(b + "→" + a, link.backward));
    duplex_.push_back(link.duplex.empty() ? -1 : add_resource(a + "↔" + b, link.duplex));
  }
  first_constraint_ = static_cast<int>(resources_.size());
  for (const Constraint& constraint : machine_.constraints) add_resource(constraint.name, constraint.capacity);
  first_local_ = static_cast<int>(resources_.size());
  for (std::size_t i = 0; i < gpu_nodes_.size(); ++i)
    add_resource("gpu" + std::to_string(i) + " memory", {{1, machine_.gpu.local_copy_gb_per_s}});
  for (std::size_t i = 0; i < memory_nodes_.size(); ++i)
    add_resource("host" + std::to_string(i) + " memory", {{1, machine_.host.local_copy_gb_per_s}});
  first_processor_ = static_cast<int>(resources_.size());
  for (std::size_t i = 0; i < gpu_nodes_.size(); ++i) add_resource("gpu" + std::to_string(i), {{1, 1.0}});
  for (std::size_t i = 0; i < memory_nodes_.size(); ++i) add_resource("host" + std::to_string(i), {{1, 1.0}});
  first_staged_ = static_cast<int>(resources_.size());
  for (std::size_t i = 0; i < gpu_nodes_.size(); ++i)
    add_resource("gpu" + std::to_string(i) + " staging to peers",
                 {{1, machine_.staged_peer_gb_per_s > 0 ? machine_.staged_peer_gb_per_s : 1e6}});
  for (const int gpu : gpu_nodes_) {
    const std::string computer = computer_of(machine_.nodes[gpu].name);
    if (pageable_.contains(computer)) continue;
    const double gb_per_s = machine_.pageable_gb_per_s > 0 ? machine_.pageable_gb_per_s : 1e6;
    pageable_[computer] = add_resource(computer + "pageable staging", {{1, gb_per_s}});
  }
}

int Topology::add_resource(std::string name, Capacity capacity) {
  resources_.push_back({std::move(name), std::move(capacity)});
  return static_cast<int>(resources_.size()) - 1;
}

int Topology::node_of(Place place) const {
  const std::vector<int>& nodes = place.is_gpu() ? gpu_nodes_ : memory_nodes_;
  if (place.index < 0 || place.index >= static_cast<int>(nodes.size()))
    throw UsageError("machine '" + machine_.name + "' has no " + place.name() + "; it has " +
                     std::to_string(gpu_nodes_.size()) + " GPUs and " + std::to_string(memory_nodes_.size()) +
                     " host memories");
  return nodes[place.index];
}

int Topology::processor_of(Place place) const {
  node_of(place);
  return first_processor_ + (place.is_gpu() ? 0 : static_cast<int>(gpu_nodes_.size())) + place.index;
}

// Fewest links, then the widest bottleneck. GPUs and memories are ends, never intermediate stops: routing
// over a GPU is a decision of transfer/, not of the hardware.
std::vector<int> Topology::shortest_path(int from, int to) const {
  struct Reached {
    int hops = std::numeric_limits<int>::max();
    double width = 0;
    int link = -1;
    int previous = -1;
  };
  std::vector<Reached> reached(machine_.nodes.size());
  reached[from] = {0, std::numeric_limits<double>::infinity(), -1, -1};
  std::deque<int> queue{from};
  while (!queue.empty()) {
    const int node = queue.front();
    queue.pop_front();
    const NodeKind kind = machine_.nodes[node].kind;
    if (node != from && (kind == NodeKind::gpu || kind == NodeKind::memory)) continue;
    for (int l = 0; l < static_cast<int>(machine_.links.size()); ++l) {
      const Link& link = machine_.links[l];
      if (link.a != node && link.b != node) continue;
      const int next = link.a == node ? link.b : link.a;
      const Capacity& capacity = link.a == node ? link.forward : link.backward;
      const Reached candidate{reached[node].hops + 1, std::min(reached[node].width, capacity.front().gb_per_s), l,
                              node};
      if (candidate.hops < reached[next].hops ||
          (candidate.hops == reached[next].hops && candidate.width > reached[next].width)) {
        reached[next] = candidate;
        queue.push_back(next);
      }
    }
  }
  if (reached[to].link < 0)
    throw UsageError("machine '" + machine_.name + "': nothing joins " + machine_.nodes[from].name + " and " +
                     machine_.nodes[to].name);
  std::vector<int> path;
  for (int node = to; node != from; node = reached[node].previous) path.push_back(reached[node].link);
  std::ranges::reverse(path);
  return path;
}

bool Topology::is_over_the_host(const std::vector<int>& links) const {
  return std::ranges::any_of(links, [&](int l) {
    return std::ranges::any_of(std::array{machine_.links[l].a, machine_.links[l].b}, [&](int node) {
      const NodeKind kind = machine_.nodes[node].kind;
      return kind != NodeKind::gpu && kind != NodeKind::nvswitch;
    });
  });
}

bool Topology::can_reach(int a, int b) const {
  return a == b || !machine_.staged_peers || !is_over_the_host(shortest_path(gpu_nodes_[a], gpu_nodes_[b]));
}

bool Topology::reach_each_other(std::span<const int> gpus) const {
  return std::ranges::all_of(
      gpus, [&](int gpu) { return std::ranges::all_of(gpus, [&](int other) { return can_reach(gpu, other); }); });
}

bool Topology::meet_at_the_host(int a, int b) { return is_over_the_host(route(Place::gpu(a), Place::gpu(b)).links); }

// Appends the shortest path from one node to another.
void Topology::follow(Route& route, int from, int to) const {
  int node = from;
  for (const int l : shortest_path(from, to)) {
    const Link& link = machine_.links[l];
    route.latency_us += link.latency_us;
    route.links.push_back(l);
    route.uses.push_back({link.a == node ? forward_[l] : backward_[l], 1});
    if (duplex_[l] >= 0) route.uses.push_back({duplex_[l], 1});
    node = link.a == node ? link.b : link.a;
  }
}

Route Topology::build_route(Place from, Place to, bool pageable) const {
  Route route;
  route.latency_us = startup_us(machine_.copy_startup, from, to);
  const int source = node_of(from), target = node_of(to);
  if (source == target) {
    const int offset = from.is_gpu() ? 0 : static_cast<int>(gpu_nodes_.size());
    route.uses.push_back({first_local_ + offset + from.index, 1});
    return route;
  }
  if (from.is_gpu() && to.is_gpu() && !can_reach(from.index, to.index)) {
    const int memory = memory_nodes_.front();
    follow(route, source, memory);
    follow(route, memory, target);
    if (machine_.staged_peer_gb_per_s > 0) route.uses.push_back({first_staged_ + from.index, 1});
  } else {
    follow(route, source, target);
  }
  if (from.is_gpu() || to.is_gpu()) {
    const Traffic traffic = traffic_between(from, to);
    for (std::size_t c = 0; c < machine_.constraints.size(); ++c) {
      const auto& terms = machine_.constraints[c].terms;
      const auto term = std::ranges::find_if(terms, [&](const Term& t) {
        return t.traffic == traffic && matches(t.from, from.index) && matches(t.to, to.index);
      });
      if (term != terms.end()) route.uses.push_back({first_constraint_ + static_cast<int>(c), term->weight});
    }
  }
  if (pageable && from.is_gpu() != to.is_gpu()) {
    const int gpu = from.is_gpu() ? source : target;
    route.uses.push_back({pageable_.at(computer_of(machine_.nodes[gpu].name)), 1});
  }
  return route;
}

const Route& Topology::route(Place from, Place to, bool pageable) {
  const auto key = std::pair{std::pair{from, to}, pageable};
  const auto found = routes_.find(key);
  if (found != routes_.end()) return found->second;
  return routes_.emplace(key, build_route(from, to, pageable)).first->second;
}

double capacity_at(const Capacity& capacity, int flows) {
  const auto above = std::ranges::find_if(capacity, [&](const CapacityPoint& p) { return p.flows >= flows; });
  if (above == capacity.begin()) return capacity.front().gb_per_s;
  if (above == capacity.end()) return capacity.back().gb_per_s;
  const CapacityPoint &low = *(above - 1), &high = *above;
  const double t = static_cast<double>(flows - low.flows) / (high.flows - low.flows);
  return low.gb_per_s + t * (high.gb_per_s - low.gb_per_s);
}

std::vector<double> fair_rates(std::span<const Resource> resources, std::span<const std::vector<Use>* const> flows) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  std::vector<double> rates(flows.size(), unlimited);
  // Only resources that somebody uses take part.
  std::vector<int> users(resources.size(), 0);
  std::vector<double> rising(resources.size(), 0);    // Σ weights of the flows that still rise,
  std::vector<int> rising_uses(resources.size(), 0);  // and their number: sums of weights leave rounding errors
  std::vector<int> used;
  for (const auto* uses : flows)
    for (const Use& use : *uses) {
      if (users[use.resource]++ == 0) used.push_back(use.resource);
      rising[use.resource] += use.weight;
      ++rising_uses[use.resource];
    }
  std::vector<double> left(resources.size(), 0);
  for (const int r : used) left[r] = capacity_at(resources[r].capacity, users[r]);
  std::vector<char> full(resources.size(), 0);

  double level = 0;
  std::size_t fixed = 0;
  while (fixed < flows.size()) {
    double step = unlimited;
    for (const int r : used)
      if (rising_uses[r] > 0 && rising[r] > 0) step = std::min(step, left[r] / rising[r]);
    if (step == unlimited) break;  // the rest uses nothing
    level += step;
    for (const int r : used) {
      if (rising_uses[r] == 0) continue;
      left[r] -= step * rising[r];
      full[r] = left[r] <= 1e-9 * capacity_at(resources[r].capacity, users[r]);
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] != unlimited) continue;
      if (!std::ranges::any_of(*flows[f], [&](const Use& use) { return full[use.resource] != 0; })) continue;
      rates[f] = level;
      ++fixed;
      for (const Use& use : *flows[f]) {
        rising[use.resource] -= use.weight;
        --rising_uses[use.resource];
      }
    }
  }
  return rates;
}

}  // namespace linkwise
