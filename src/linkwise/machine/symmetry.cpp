#include "linkwise/machine/symmetry.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace linkwise {
namespace {

using Colour = std::uint64_t;

constexpr double alike = 1.02;             // widths within this ratio count as the same
constexpr std::size_t few_enough = 12;     // with at most this many GPUs, all their sets (up to 4,095) are compared
constexpr std::size_t most_searched = 32;  // with more than this many GPUs, no sets are compared
constexpr std::size_t most_kinds = 64;     // classes of one size, with more than `few_enough` GPUs
constexpr std::size_t most_together = 64;  // GPUs that one sort or join uses
constexpr int rounds = 2;                  // of refinement: as far as a GPU's neighbours' neighbours

Colour mixed(Colour a, Colour b) {
  Colour x = a * 0x9e3779b97f4a7c15U + b + 0x632be59bd9b4e019U;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9U;
  return x ^ (x >> 32);
}

Colour mixed(std::vector<Colour> colours) {
  std::ranges::sort(colours);
  Colour all = colours.size();
  for (const Colour colour : colours) all = mixed(all, colour);
  return all;
}

class Symmetry {
 public:
  explicit Symmetry(Topology& topology)
      : topology_(topology), gpus_(static_cast<std::size_t>(topology.machine().num_gpus())) {
    classify_resources();
    for (std::size_t a = 0; a < gpus_; ++a) {
      in_.push_back(uses(Place::host(), gpu(a)));
      out_.push_back(uses(gpu(a), Place::host()));
    }
    for (std::size_t a = 0; a < gpus_; ++a)
      for (std::size_t b = 0; b < gpus_; ++b) pairs_.push_back(a == b ? colour_of_host_ways(a) : colour_of_pair(a, b));
  }

  std::vector<std::vector<int>> distinct_sets() {
    return gpus_ <= few_enough ? distinct_of_all() : distinct_of_larger();
  }

 private:
  static Place gpu(std::size_t number) { return Place::gpu(static_cast<int>(number)); }

  std::vector<std::vector<int>> distinct_of_all() const {
    std::vector<std::vector<int>> sets;
    for (unsigned mask = 1; mask < (1u << gpus_); ++mask) {
      std::vector<int>& set = sets.emplace_back();
      for (int gpu = 0; gpu < static_cast<int>(gpus_); ++gpu)
        if ((mask >> gpu & 1) != 0) set.push_back(gpu);
    }
    std::ranges::sort(sets,
                      [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
    std::set<std::pair<std::size_t, Colour>> known;
    std::erase_if(sets, [&](const auto& set) { return !known.emplace(set.size(), colour_of_set(set)).second; });
    return sets;
  }

  // Builds the classes of each size by adding one GPU to those of the size below. This finds all of them, since GPUs
  // count as alike only if they are alike in the whole machine.
  std::vector<std::vector<int>> distinct_of_larger() {
    std::vector<int> everyone;
    for (int gpu = 0; gpu < static_cast<int>(gpus_); ++gpu) everyone.push_back(gpu);
    const std::vector<Colour> in_all = refined(everyone);
    for (std::size_t a = 0; a < gpus_; ++a) pairs_[a * gpus_ + a] = in_all[a];
    std::vector<std::vector<int>> all, level{{}};
    while (!level.empty()) {
      std::set<std::vector<int>> larger;
      for (const std::vector<int>& set : level) add_with_one_more(set, in_all, larger);
      level.clear();
      std::set<Colour> known;
      for (const std::vector<int>& set : larger)
        if (known.insert(colour_of_set(set)).second) level.push_back(set);
      // In order of number, neighbouring GPUs come first and distant ones last: of too many classes, keep both ends,
      // which differ most.
      if (level.size() > most_kinds) level.erase(level.begin() + most_kinds / 2, level.end() - most_kinds / 2);
      all.insert(all.end(), level.begin(), level.end());
    }
    return all;
  }

  // Adds one GPU to the set: of GPUs that are connected to the set in the same way, only the first.
  void add_with_one_more(const std::vector<int>& set, const std::vector<Colour>& in_all,
                         std::set<std::vector<int>>& larger) const {
    std::set<Colour> known;
    for (int gpu = 0; gpu < static_cast<int>(gpus_); ++gpu) {
      if (std::ranges::find(set, gpu) != set.end()) continue;
      std::vector<Colour> colours;
      for (const int other : set) colours.push_back(mixed(in_all[static_cast<std::size_t>(other)], pair(other, gpu)));
      if (!known.insert(mixed(in_all[static_cast<std::size_t>(gpu)], mixed(std::move(colours)))).second) continue;
      std::vector<int> more = set;
      more.insert(std::ranges::upper_bound(more, gpu), gpu);
      larger.insert(std::move(more));
    }
  }

  [[nodiscard]] Colour pair(int a, int b) const {
    return pairs_[static_cast<std::size_t>(a) * gpus_ + static_cast<std::size_t>(b)];
  }

  std::vector<Use> uses(Place from, Place to) { return topology_.route(from, to).uses; }

  // In order of width, a resource more than 2 % wider than the one before begins a new class.
  void classify_resources() {
    const auto& resources = topology_.resources();
    std::vector<std::pair<double, std::size_t>> by_width;
    for (std::size_t r = 0; r < resources.size(); ++r) by_width.emplace_back(resources[r].capacity.back().gb_per_s, r);
    std::ranges::sort(by_width);
    classes_.resize(resources.size());
    Colour number = 0;
    for (std::size_t i = 0; i < by_width.size(); ++i) {
      if (i > 0 && by_width[i].first > alike * by_width[i - 1].first) ++number;
      classes_[by_width[i].second] = number;
    }
  }

  [[nodiscard]] Colour colour_of_use(const Use& use) const {
    return mixed(classes_[use.resource], static_cast<Colour>(use.weight * 50));
  }

  [[nodiscard]] Colour colour_of(const std::vector<Use>& route) const {
    std::vector<Colour> colours;
    for (const Use& use : route) colours.push_back(colour_of_use(use));
    return mixed(std::move(colours));
  }

  [[nodiscard]] Colour colour_of_shared(const std::vector<Use>& a, const std::vector<Use>& b) const {
    std::vector<Colour> colours;
    for (const Use& use : a) {
      const auto other = std::ranges::find(b, use.resource, &Use::resource);
      if (other != b.end()) colours.push_back(mixed(colour_of_use(use), colour_of_use(*other)));
    }
    return mixed(std::move(colours));
  }

  [[nodiscard]] Colour colour_of_host_ways(std::size_t a) const { return mixed(colour_of(in_[a]), colour_of(out_[a])); }

  Colour colour_of_pair(std::size_t a, std::size_t b) {
    Colour colour = mixed(colour_of(uses(gpu(a), gpu(b))), colour_of(uses(gpu(b), gpu(a))));
    for (const auto* of_a : {&in_[a], &out_[a]})
      for (const auto* of_b : {&in_[b], &out_[b]}) colour = mixed(colour, colour_of_shared(*of_a, *of_b));
    return colour;
  }

  // By position in the set: each GPU's initial colour, refined by the colours of the GPUs that it is connected to.
  [[nodiscard]] std::vector<Colour> refined(const std::vector<int>& set) const {
    std::vector<Colour> colours, others;
    for (const int gpu : set) colours.push_back(pair(gpu, gpu));
    for (int round = 0; round < rounds; ++round) {
      std::vector<Colour> next;
      for (std::size_t a = 0; a < set.size(); ++a) {
        others.clear();
        for (std::size_t b = 0; b < set.size(); ++b)
          if (a != b) others.push_back(mixed(pair(set[a], set[b]), colours[b]));
        next.push_back(mixed(colours[a], mixed(others)));
      }
      colours = std::move(next);
    }
    return colours;
  }

  [[nodiscard]] Colour colour_of_set(const std::vector<int>& set) const { return mixed(refined(set)); }

  Topology& topology_;
  std::size_t gpus_;
  std::vector<Colour> classes_;             // by resource
  std::vector<std::vector<Use>> in_, out_;  // host routes, by GPU
  std::vector<Colour> pairs_;               // by pair of GPUs; of a GPU and itself: its routes to the host
};

// Sizes that grow by half each time; for each, one set of neighbouring GPUs and one of GPUs that are far apart.
std::vector<std::vector<int>> sets_of_very_many(std::size_t gpus) {
  std::vector<std::vector<int>> sets;
  const std::size_t most = std::min(gpus, most_together);
  for (std::size_t size = 1; size <= most; size = size == most ? most + 1 : std::min(most, size + (size + 1) / 2))
    for (const std::size_t step : {std::size_t{1}, gpus / size}) {
      std::vector<int> set;
      for (std::size_t k = 0; k < size; ++k) set.push_back(static_cast<int>(k * step));
      if (sets.empty() || sets.back() != set) sets.push_back(std::move(set));
    }
  return sets;
}

}  // namespace

std::vector<std::vector<int>> distinct_gpu_sets(Topology& topology) {
  const auto gpus = static_cast<std::size_t>(topology.machine().num_gpus());
  return gpus <= most_searched ? Symmetry(topology).distinct_sets() : sets_of_very_many(gpus);
}

}  // namespace linkwise
