#include "linkwise/machine/machine.hpp"

#include <algorithm>
#include <iterator>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr int most_gpus = 512;  // planning for this many takes half a minute

int count(const Machine& machine, NodeKind kind) {
  return static_cast<int>(std::ranges::count(machine.nodes, kind, &Node::kind));
}

void check_capacity(const std::string& owner, const Capacity& capacity) {
  if (capacity.empty()) throw UsageError(owner + " has no capacity; give it GB/s");
  int previous = 0;
  for (const CapacityPoint& point : capacity) {
    if (!(point.gb_per_s > 0)) throw UsageError(owner + " has a capacity that is not positive");
    if (point.flows <= previous) throw UsageError(owner + " needs capacity points in rising order of flows, from 1");
    previous = point.flows;
  }
}

}  // namespace

int Machine::num_gpus() const { return count(*this, NodeKind::gpu); }
Rate Machine::host_gather_rate() const {
  constexpr Rate usual{50, 650, 18};
  const auto found = host.rates.find("gather");
  return found == host.rates.end() ? usual : found->second;
}

double Machine::goodput_of_stores(int bytes) const {
  if (store_goodput.empty()) return 1;
  const auto above = store_goodput.lower_bound(bytes);
  if (above == store_goodput.end()) return store_goodput.rbegin()->second;
  if (above == store_goodput.begin()) return above->second;
  const auto below = std::prev(above);
  const double share = static_cast<double>(bytes - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

int Machine::num_host_memories() const { return count(*this, NodeKind::memory); }

void Machine::validate() const {
  const std::string where = "machine '" + name + "': ";
  if (num_gpus() == 0) throw UsageError(where + "it has no GPU");
  if (num_gpus() > most_gpus)
    throw UsageError(where + "it has " + std::to_string(num_gpus()) + " GPUs; at most " + std::to_string(most_gpus) +
                     " make one machine: describe one of its nodes");
  if (num_host_memories() == 0) throw UsageError(where + "it has no host memory");
  const int num_nodes = static_cast<int>(nodes.size());
  for (const Link& link : links) {
    const std::string owner = where + "link '" + link.name + "'";
    if (link.a < 0 || link.b < 0 || link.a >= num_nodes || link.b >= num_nodes || link.a == link.b)
      throw UsageError(owner + " does not join two nodes of the machine");
    check_capacity(owner, link.forward);
    check_capacity(owner, link.backward);
    if (!link.duplex.empty()) check_capacity(owner + " (duplex)", link.duplex);
  }
  for (const Constraint& constraint : constraints) {
    const std::string owner = where + "constraint '" + constraint.name + "'";
    check_capacity(owner, constraint.capacity);
    for (const Term& term : constraint.terms)
      if (!(term.weight > 0)) throw UsageError(owner + " has a weight that is not positive");
  }
  for (const double cost : {agents.inline_stall, agents.memory_share, agents.tracking_ns, agents.polling_us,
                            agents.polling_share, agents.dynamic_us, agents.dynamic_share, agents.copy_engine_us})
    if (!(cost >= 0 && cost < 1e9)) throw UsageError(where + "what agents cost is finite and not negative");
  if (agents.saturating_threads < 1) throw UsageError(where + "saturating_threads is 1 at least");
  if (!(agents.polling_goodput > 0 && agents.polling_goodput <= 1))
    throw UsageError(where + "polling_goodput is more than 0, and 1 at most");
  for (const auto& [bytes, fraction] : store_goodput)
    if (bytes < 1 || !(fraction > 0) || fraction > 1)
      throw UsageError(where + "store_goodput is a fraction, by the bytes of a store");
  if (!(gpu.local_copy_gb_per_s > 0) || !(gpu.memory_gib > 0) || !(host.local_copy_gb_per_s > 0))
    throw UsageError(where + "GPU memory and the local copy rates of GPU and host must be positive");
}

}  // namespace linkwise
