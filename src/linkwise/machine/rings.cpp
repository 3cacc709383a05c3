#include "linkwise/machine/rings.hpp"

#include <algorithm>

#include "linkwise/error.hpp"
#include "linkwise/machine/linear_program.hpp"

namespace linkwise {
namespace {

constexpr std::size_t most_to_permute = 8;  // 5,040 rings
constexpr double no_rate = 1e-6;
constexpr double launch_us = 10;  // tartan20 §3.2.2: 18 µs on two GPUs that reach each other in 8

template <typename Visit>
void for_each_hop(const std::vector<int>& ring, const Visit& visit) {
  for (std::size_t i = 0; i < ring.size(); ++i) visit(ring[i], ring[(i + 1) % ring.size()]);
}

bool is_over_links(Topology& topology, const std::vector<int>& ring) {
  bool over_links = true;
  for_each_hop(ring, [&](int a, int b) { over_links = over_links && !topology.meet_at_the_host(a, b); });
  return over_links;
}

// All rings over GPU links that begin at the first GPU.
std::vector<std::vector<int>> rings_over_links(Topology& topology, const std::vector<int>& gpus) {
  std::vector<std::vector<int>> found;
  std::vector<int> ring = gpus;
  if (gpus.size() > most_to_permute) {
    if (is_over_links(topology, ring)) found.push_back(ring);
    return found;
  }
  std::ranges::sort(ring);
  do {
    if (is_over_links(topology, ring)) found.push_back(ring);
  } while (std::next_permutation(ring.begin() + 1, ring.end()));
  return found;
}

// The rate of each ring when their total is highest.
std::vector<double> best_rates(Topology& topology, const std::vector<std::vector<int>>& rings) {
  const std::size_t num_resources = topology.resources().size();
  std::vector<std::vector<double>> rows(num_resources, std::vector<double>(rings.size(), 0));
  for (std::size_t r = 0; r < rings.size(); ++r)
    for_each_hop(rings[r], [&](int a, int b) {
      for (const Use& use : topology.route(Place::gpu(a), Place::gpu(b)).uses) rows[use.resource][r] += use.weight;
    });
  std::vector<std::vector<double>> used;
  std::vector<double> limits;
  for (std::size_t r = 0; r < num_resources; ++r) {
    if (std::ranges::all_of(rows[r], [](double weight) { return weight == 0; })) continue;
    used.push_back(std::move(rows[r]));
    limits.push_back(topology.resources()[r].capacity.front().gb_per_s);
  }
  return maximise_sum(std::move(used), std::move(limits));
}

}  // namespace

Rings rings_of(Topology& topology, const std::vector<int>& gpus) {
  if (gpus.size() < 2) throw UsageError("a collective takes two GPUs or more");
  Rings found;
  const std::vector<std::vector<int>> candidates = rings_over_links(topology, gpus);
  found.over_links = !candidates.empty();
  if (found.over_links) {
    const std::vector<double> rates = best_rates(topology, candidates);
    for (std::size_t r = 0; r < candidates.size(); ++r) {
      if (rates[r] <= no_rate) continue;
      found.rings.push_back(candidates[r]);
      found.rates.push_back(rates[r]);
      found.gb_per_s += rates[r];
    }
  } else {
    found.rings.push_back(gpus);
    std::vector<const std::vector<Use>*> flows;
    for_each_hop(gpus, [&](int a, int b) { flows.push_back(&topology.route(Place::gpu(a), Place::gpu(b)).uses); });
    found.gb_per_s = std::ranges::min(fair_rates(topology.resources(), flows));
    found.rates.push_back(found.gb_per_s);
  }
  for_each_hop(found.rings.front(), [&](int a, int b) {
    found.step_us = std::max(found.step_us, topology.route(Place::gpu(a), Place::gpu(b)).latency_us);
  });
  return found;
}

double collective_factor(Collective collective, int gpus) {
  const double share = (gpus - 1.0) / gpus;
  switch (collective) {
    case Collective::all_reduce: return 2 * share;
    case Collective::all_gather:
    case Collective::reduce_scatter: return share;
    case Collective::broadcast:
    case Collective::reduce: return 1;
  }
  return 1;
}

double collective_seconds(Collective collective, const Rings& rings, int gpus, double bytes) {
  const int steps = (gpus - 1) * (collective == Collective::all_reduce ? 2 : 1);
  return (launch_us + steps * rings.step_us) * 1e-6 +
         collective_factor(collective, gpus) * bytes / (rings.gb_per_s * 1e9);
}

}  // namespace linkwise
