#include "linkwise/probe/host_paths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr double shares = 0.85;     // of twice the slower GPU's rate alone: a pair below this shares a path
constexpr double explained = 0.96;  // of the rate that the known limits allow: a set below this has another limit

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Capacity capacity_from(const std::map<int, std::vector<double>>& by_flows) {
  Capacity capacity;
  for (const auto& [flows, seen] : by_flows) capacity.push_back({flows, median_of(seen)});
  return capacity;
}

std::string named(const std::vector<int>& gpus) {
  std::string text;
  for (const int gpu : gpus) text += (text.empty() ? "" : ", ") + std::to_string(gpu);
  return text;
}

std::string name_of(HostDirection direction) {
  return direction == HostDirection::in ? "in" : direction == HostDirection::out ? "out" : "both ways";
}

std::string rounded(double value) { return std::to_string(std::lround(value)); }

class Inference {
 public:
  Inference(int num_gpus, const std::vector<HostObservation>& observations)
      : num_gpus_(num_gpus), observations_(observations), group_of_(static_cast<std::size_t>(num_gpus), -1) {}

  HostPaths run() {
    for (int gpu = 0; gpu < num_gpus_; ++gpu) {
      paths_.in.push_back(seen(HostDirection::in, {gpu}));
      paths_.out.push_back(seen(HostDirection::out, {gpu}));
      paths_.both.push_back(seen(HostDirection::both, {gpu}));
    }
    find_groups();
    for (std::size_t group = 0; group < paths_.groups.size(); ++group) limit_group(static_cast<int>(group));
    const std::vector<double> in = limit_memory(HostDirection::in), out = limit_memory(HostDirection::out);
    limit_both(in, out);
    tell();
    return std::move(paths_);
  }

 private:
  [[nodiscard]] double seen(HostDirection direction, const std::vector<int>& gpus) const {
    for (const HostObservation& observation : observations_)
      if (observation.direction == direction && observation.gpus == gpus) return observation.gb_per_s;
    throw UsageError("the host's ways cannot be inferred without having measured GPUs " + named(gpus));
  }

  // Groups are connected components: two GPUs are neighbours if they share a path in at least one direction.
  void find_groups() {
    std::vector<std::set<int>> neighbours(static_cast<std::size_t>(num_gpus_));
    for (int a = 0; a < num_gpus_; ++a)
      for (int b = a + 1; b < num_gpus_; ++b)
        for (const HostDirection direction : {HostDirection::in, HostDirection::out}) {
          const auto& alone = direction == HostDirection::in ? paths_.in : paths_.out;
          if (seen(direction, {a, b}) >= shares * 2 * std::min(alone[a], alone[b])) continue;
          neighbours[a].insert(b);
          neighbours[b].insert(a);
        }
    for (int gpu = 0; gpu < num_gpus_; ++gpu) {
      if (group_of_[gpu] >= 0 || neighbours[gpu].empty()) continue;
      std::vector<int> members{gpu};
      group_of_[gpu] = static_cast<int>(paths_.groups.size());
      for (std::size_t m = 0; m < members.size(); ++m)
        for (const int next : neighbours[members[m]])
          if (group_of_[next] < 0) {
            group_of_[next] = group_of_[gpu];
            members.push_back(next);
          }
      std::ranges::sort(members);
      paths_.groups.push_back(members);
    }
  }

  // Whether all GPUs of a set belong to this group; -1 stands for the ungrouped GPUs.
  [[nodiscard]] bool is_within(const std::vector<int>& gpus, int group) const {
    return std::ranges::all_of(gpus, [&](int gpu) { return group_of_[gpu] == group; });
  }

  // Adds the capacities of a group's shared path, by the number of concurrent flows.
  void limit_group(int group) {
    const std::vector<int>& members = paths_.groups[static_cast<std::size_t>(group)];
    for (const HostDirection direction : {HostDirection::in, HostDirection::out, HostDirection::both}) {
      std::map<int, std::vector<double>> by_flows;
      for (const HostObservation& observation : observations_)
        if (observation.direction == direction && is_within(observation.gpus, group))
          by_flows[flows_of(observation)].push_back(observation.gb_per_s);
      Constraint constraint{name_of_way(members, direction), capacity_from(by_flows), {}};
      // Both directions together can carry at least what one direction alone carries with as many flows.
      for (const HostObservation& observation : observations_)
        for (CapacityPoint& point : constraint.capacity)
          if (direction == HostDirection::both && observation.direction != direction &&
              flows_of(observation) == point.flows && is_within(observation.gpus, group))
            point.gb_per_s = std::max(point.gb_per_s, observation.gb_per_s);
      if (direction != HostDirection::out) constraint.terms.push_back({Traffic::host_to_device, {}, members, 1});
      if (direction != HostDirection::in) constraint.terms.push_back({Traffic::device_to_host, members, {}, 1});
      paths_.constraints.push_back(std::move(constraint));
    }
  }

  static int flows_of(const HostObservation& observation) {
    return static_cast<int>(observation.gpus.size()) * (observation.direction == HostDirection::both ? 2 : 1);
  }

  // The rate of each flow of a set, if all have the same rate, as limited by the GPUs' own links and the groups'
  // paths.
  [[nodiscard]] double rate_without_memory(const std::vector<int>& gpus, HostDirection direction) const {
    double rate = std::numeric_limits<double>::infinity();
    const int ways = direction == HostDirection::both ? 2 : 1;
    for (const int gpu : gpus) {
      const double own = direction == HostDirection::in    ? paths_.in[gpu]
                         : direction == HostDirection::out ? paths_.out[gpu]
                                                           : paths_.both[gpu];
      rate = std::min(rate, own / ways);
    }
    for (std::size_t group = 0; group < paths_.groups.size(); ++group) {
      const auto inside = static_cast<int>(
          std::ranges::count_if(gpus, [&](int gpu) { return group_of_[gpu] == static_cast<int>(group); }));
      if (inside < 2) continue;
      for (const Constraint& constraint : paths_.constraints)
        if (constraint.name == name_of_way(paths_.groups[group], direction))
          rate = std::min(rate, capacity(constraint, inside * ways) / (inside * ways));
    }
    return rate;
  }

  static double capacity(const Constraint& constraint, int flows) {
    const Capacity& points = constraint.capacity;
    const auto above = std::ranges::find_if(points, [&](const CapacityPoint& p) { return p.flows >= flows; });
    if (above == points.end()) return points.back().gb_per_s;
    if (above == points.begin() || above->flows == flows) return above->gb_per_s;
    const CapacityPoint &low = *(above - 1), &high = *above;
    return low.gb_per_s + (high.gb_per_s - low.gb_per_s) * (flows - low.flows) / (high.flows - low.flows);
  }

  // The sets across groups (or with ungrouped GPUs) that links and groups do not explain: only memory can limit them.
  [[nodiscard]] std::vector<const HostObservation*> held_back(HostDirection direction) const {
    std::vector<const HostObservation*> found;
    for (const HostObservation& observation : observations_) {
      if (observation.direction != direction || observation.gpus.size() < 2) continue;
      const int group = group_of_[observation.gpus.front()];
      if (group >= 0 && is_within(observation.gpus, group)) continue;
      const double most = rate_without_memory(observation.gpus, direction) * flows_of(observation);
      if (observation.gb_per_s < explained * most) found.push_back(&observation);
    }
    return found;
  }

  // The least-squares weights of a byte of each class (the groups, then the ungrouped GPUs) in the memory's limit:
  // the weighted rates of each memory-bound set add up to the capacity. The smallest weight is 1.
  [[nodiscard]] std::vector<double> weights(const std::vector<const HostObservation*>& sets) const {
    const std::size_t classes = paths_.groups.size() + 1;
    std::vector<std::vector<double>> normal(classes, std::vector<double>(classes + 1, 0));
    for (const HostObservation* set : sets) {
      std::vector<double> row(classes, 0);  // GB/s of each class
      for (const int gpu : set->gpus) row[class_of(gpu)] += set->gb_per_s / static_cast<double>(set->gpus.size());
      for (std::size_t i = 0; i < classes; ++i) {
        for (std::size_t j = 0; j < classes; ++j) normal[i][j] += row[i] * row[j];
        normal[i][classes] += row[i];
      }
    }
    std::vector<double> found(classes, 0);
    solve(normal, found);
    double least = std::numeric_limits<double>::infinity();
    for (const double weight : found)
      if (weight > 0) least = std::min(least, weight);
    for (double& weight : found) weight = weight > 0 ? weight / least : 1;
    return found;
  }

  [[nodiscard]] std::size_t class_of(int gpu) const {
    return group_of_[gpu] < 0 ? paths_.groups.size() : static_cast<std::size_t>(group_of_[gpu]);
  }

  // Gauss-Jordan elimination of the normal equations; unknowns without a pivot stay 0.
  static void solve(std::vector<std::vector<double>> rows, std::vector<double>& x) {
    const std::size_t n = x.size();
    std::vector<std::size_t> pivot_of(n, n);
    for (std::size_t column = 0, next = 0; column < n && next < n; ++column) {
      std::size_t best = next;
      for (std::size_t r = next; r < n; ++r)
        if (std::abs(rows[r][column]) > std::abs(rows[best][column])) best = r;
      if (std::abs(rows[best][column]) < 1e-6) continue;
      std::swap(rows[best], rows[next]);
      for (std::size_t r = 0; r < n; ++r) {
        if (r == next) continue;
        const double factor = rows[r][column] / rows[next][column];
        for (std::size_t c = column; c <= n; ++c) rows[r][c] -= factor * rows[next][c];
      }
      pivot_of[column] = next++;
    }
    for (std::size_t column = 0; column < n; ++column)
      if (pivot_of[column] < n) x[column] = rows[pivot_of[column]][n] / rows[pivot_of[column]][column];
  }

  [[nodiscard]] std::vector<Term> terms(HostDirection direction, const std::vector<double>& weight) const {
    std::vector<Term> found;
    std::vector<std::vector<int>> members = paths_.groups;
    members.emplace_back();
    for (int gpu = 0; gpu < num_gpus_; ++gpu)
      if (group_of_[gpu] < 0) members.back().push_back(gpu);
    for (std::size_t c = 0; c < members.size(); ++c) {
      if (members[c].empty()) continue;
      if (direction == HostDirection::in) found.push_back({Traffic::host_to_device, {}, members[c], weight[c]});
      else found.push_back({Traffic::device_to_host, members[c], {}, weight[c]});
    }
    return found;
  }

  // Adds the constraint, and returns the weights; all are 1 if memory limits no set.
  std::vector<double> limit_memory(HostDirection direction) {
    std::vector<const HostObservation*> sets = held_back(direction);
    // If most sets of the same kind are not memory-bound, this one was a disturbed measurement.
    std::erase_if(sets, [&](const HostObservation* set) { return !is_typical(*set, sets); });
    if (sets.empty()) return std::vector<double>(paths_.groups.size() + 1, 1.0);
    const std::vector<double> weight = weights(sets);
    std::map<int, std::vector<double>> by_flows;
    for (const HostObservation* set : sets) by_flows[flows_of(*set)].push_back(weighted(*set, weight));
    const Constraint memory{"host memory, " + name_of(direction), capacity_from(by_flows), terms(direction, weight)};
    memory_[direction] = memory;
    paths_.constraints.push_back(memory);
    return weight;
  }

  // Whether at least half of the sets of this direction and kind are memory-bound. The kind of a set is its number of
  // GPUs of each class.
  [[nodiscard]] bool is_typical(const HostObservation& set, const std::vector<const HostObservation*>& held) const {
    const auto kind = [&](const HostObservation& observation) {
      std::vector<int> members(paths_.groups.size() + 1, 0);
      for (const int gpu : observation.gpus) ++members[class_of(gpu)];
      return members;
    };
    const auto alike = [&](const HostObservation& other) {
      return other.direction == set.direction && kind(other) == kind(set);
    };
    const auto all = std::ranges::count_if(observations_, alike);
    const auto of_held = std::ranges::count_if(held, [&](const HostObservation* other) { return alike(*other); });
    return 2 * of_held >= all;
  }

  // The weighted rate of a set: what it uses of a capacity with these weights.
  [[nodiscard]] double weighted(const HostObservation& set, const std::vector<double>& weight) const {
    double sum = 0;
    for (const int gpu : set.gpus) sum += weight[class_of(gpu)];
    return sum * set.gb_per_s / static_cast<double>(set.gpus.size());
  }

  // Both directions also share the memory. A byte out costs more than a byte in by the ratio of the directions'
  // highest weighted rates; and the capacity is at least what one direction alone reached with as many flows.
  void limit_both(const std::vector<double>& in, std::vector<double> out) {
    const std::vector<const HostObservation*> sets = held_back(HostDirection::both);
    const auto most = [&](HostDirection direction, const std::vector<double>& weight, int flows) {
      double found = 0;
      for (const HostObservation& set : observations_)
        if (set.direction == direction && (flows == 0 || flows_of(set) == flows))
          found = std::max(found, weighted(set, weight));
      return found;
    };
    const double dearer = most(HostDirection::in, in, 0) / most(HostDirection::out, out, 0);
    for (double& weight : out) weight *= dearer;
    std::map<int, std::vector<double>> by_flows;
    for (const HostObservation* set : sets)
      if (is_typical(*set, sets)) by_flows[flows_of(*set)].push_back((weighted(*set, in) + weighted(*set, out)) / 2);
    if (by_flows.empty()) return;
    Constraint constraint{"host memory, both ways", capacity_from(by_flows), terms(HostDirection::in, in)};
    for (CapacityPoint& point : constraint.capacity)
      point.gb_per_s = std::max(
          {point.gb_per_s, most(HostDirection::in, in, point.flows), most(HostDirection::out, out, point.flows)});
    for (const Term& term : terms(HostDirection::out, out)) constraint.terms.push_back(term);
    paths_.constraints.push_back(std::move(constraint));
  }

  void tell() {
    for (const std::vector<int>& group : paths_.groups) {
      const std::string who = "GPUs " + named(group) + " share one way to the host";
      for (const Constraint& constraint : paths_.constraints)
        if (constraint.name == name_of_way(group, HostDirection::in))
          paths_.findings.push_back(who + ": together they read " + rounded(constraint.capacity.back().gb_per_s) +
                                    " GB/s from it, each alone " + rounded(paths_.in[group.front()]));
    }
    for (const auto& [direction, memory] : memory_)
      paths_.findings.push_back("host memory ends at about " + rounded(memory.capacity.front().gb_per_s) + " GB/s " +
                                name_of(direction));
  }

  int num_gpus_;
  const std::vector<HostObservation>& observations_;
  std::vector<int> group_of_;  // -1: in no group
  std::map<HostDirection, Constraint> memory_;
  HostPaths paths_;
};

}  // namespace

std::string name_of_way(const std::vector<int>& group, HostDirection direction) {
  return "way of GPUs " + named(group) + ", " + name_of(direction);
}

HostPaths infer_host_paths(int num_gpus, const std::vector<HostObservation>& observations) {
  return Inference(num_gpus, observations).run();
}

}  // namespace linkwise
