#include "linkwise/probe/quick_probe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/primitives/kernels.hpp"
#include "linkwise/probe/compute_rates.hpp"

namespace linkwise {
namespace {

constexpr double alike = 0.8;            // of the fastest pair's rate: if all pairs reach it, the GPUs share a switch
constexpr double beyond_the_host = 1.1;  // times the rate through the host: a faster pair has a direct link
constexpr double beyond_one_way = 1.4;   // times the rate of one way: two copies that are faster take different ones

std::string named(const std::vector<int>& gpus) {
  std::string text;
  for (const int gpu : gpus) text += (text.empty() ? "" : ",") + std::to_string(gpu);
  return text;
}

std::string name_of(HostDirection direction) {
  switch (direction) {
    case HostDirection::in: return "host to device";
    case HostDirection::out: return "device to host";
    case HostDirection::both: return "host and device, both ways";
  }
  return "";
}

std::vector<Transfer> host_pattern(const std::vector<int>& gpus, HostDirection direction, std::uint64_t bytes) {
  std::vector<Transfer> pattern;
  for (const int gpu : gpus) {
    if (direction != HostDirection::out) pattern.push_back({Place::host(), Place::gpu(gpu), bytes});
    if (direction != HostDirection::in) pattern.push_back({Place::gpu(gpu), Place::host(), bytes});
  }
  return pattern;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class QuickProbe {
 public:
  QuickProbe(Runtime& runtime, const ProbeOptions& options)
      : runtime_(runtime),
        options_(options),
        own_pool_(make_pool(runtime, options)),
        prober_(runtime, options.patience_seconds, own_pool_ ? &*own_pool_ : options.pool),
        gpus_(runtime.machine().num_gpus()) {
    profile_.machine = runtime.machine();
  }

  Profile run() {
    host_traffic();
    const HostPaths paths = infer_host_paths(gpus_, observations_);
    profile_.findings = paths.findings;
    peer_traffic();
    build_links(paths);
    local_and_pageable();
    start_ups();
    measure_rates(runtime_, prober_, options_.records, profile_.machine.gpu, profile_.machine.host);
    predict();
    return std::move(profile_);
  }

 private:
  static std::optional<HostPool> make_pool(Runtime& runtime, const ProbeOptions& options) {
    if (runtime.simulated() || options.pool != nullptr) return std::nullopt;
    return std::optional<HostPool>(std::in_place, runtime, options.pool_bytes);
  }

  struct Row {
    std::vector<Transfer> pattern;
    std::size_t number;
  };

  double measure(const std::string& name, const std::string& what, std::vector<Transfer> pattern, bool fitted) {
    const Measurement measured = prober_.transfers(pattern);
    profile_.rows.push_back({name, what, measured, 0, fitted, pattern.front().bytes, {}});
    patterns_.push_back({std::move(pattern), profile_.rows.size() - 1});
    return measured.gb_per_s;
  }

  void observe(std::vector<int> gpus, HostDirection direction, bool fitted = true) {
    const double rate = measure(name_of(direction), named(gpus), host_pattern(gpus, direction, options_.bytes), fitted);
    if (fitted) observations_.push_back({direction, std::move(gpus), rate});
  }

  // Single GPUs, pairs, all GPUs, halves, and random sets: half of the random ones for the fit, half to validate it.
  void host_traffic() {
    constexpr HostDirection directions[] = {HostDirection::in, HostDirection::out, HostDirection::both};
    std::set<std::vector<int>> known;
    const auto observe_in_all = [&](const std::vector<int>& gpus, bool fitted = true) {
      if (gpus.empty() || !known.insert(gpus).second) return;
      for (const HostDirection direction : directions) observe(gpus, direction, fitted);
    };
    for (int a = 0; a < gpus_; ++a) observe_in_all({a});
    for (int a = 0; a < gpus_; ++a)
      for (int b = a + 1; b < gpus_; ++b) observe_in_all({a, b});
    std::vector<int> all(static_cast<std::size_t>(gpus_));
    std::iota(all.begin(), all.end(), 0);
    observe_in_all(all);
    // GPUs that share hardware are often numbered consecutively or alternately: both halves, and every second GPU.
    for (const int part : {0, 1}) {
      observe_in_all({all.begin() + part * gpus_ / 2, all.begin() + (part + 1) * gpus_ / 2});
      std::vector<int> every_second;
      for (int gpu = part; gpu < gpus_; gpu += 2) every_second.push_back(gpu);
      observe_in_all(every_second);
    }
    std::mt19937 random(1);  // the same sets every time
    for (int size = 3; size < gpus_; ++size)
      for (int set = 0; set < 2 * options_.other_sets; ++set) {
        std::vector<int> gpus;
        std::ranges::sample(all, std::back_inserter(gpus), size, random);
        observe_in_all(gpus, set % 2 == 0);
      }
  }

  void peer_traffic() {
    widths_.assign(static_cast<std::size_t>(gpus_), std::vector<double>(static_cast<std::size_t>(gpus_), 0));
    const auto copy = [&](int a, int b) { return Transfer{Place::gpu(a), Place::gpu(b), 2 * options_.bytes}; };
    std::vector<Transfer> everybody;
    for (int a = 0; a < gpus_; ++a)
      for (int b = 0; b < gpus_; ++b) {
        if (a == b) continue;
        widths_[a][b] = measure("device to device", std::to_string(a) + "→" + std::to_string(b), {copy(a, b)}, true);
        if (a < b)
          both_widths_.push_back(measure("device to device, both ways", std::to_string(a) + "↔" + std::to_string(b),
                                         {copy(a, b), copy(b, a)}, true));
      }
    // Each GPU starts with a different target: copies to the same GPU would wait for each other while others idle.
    for (int step = 1; step < gpus_; ++step)
      for (int a = 0; a < gpus_; ++a) everybody.push_back(copy(a, (a + step) % gpus_));
    if (gpus_ > 2) all_to_all_ = measure("device to device, all to all", "all", everybody, true);
  }

  // Each GPU gets its own link to the host, with the inferred constraints on top; peers get a switch, direct links,
  // or constraints on peer traffic through the host.
  void build_links(const HostPaths& paths) {
    Machine& machine = profile_.machine;
    machine.nodes = {{"cpu0", NodeKind::socket}, {"mem0", NodeKind::memory}};
    machine.links.clear();
    machine.constraints = paths.constraints;
    double all_in_all = 0;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      machine.nodes.push_back({"gpu" + std::to_string(gpu), NodeKind::gpu});
      all_in_all += paths.both[static_cast<std::size_t>(gpu)];
    }
    const auto capacity = [](double gb_per_s) { return Capacity{{1, gb_per_s}}; };
    machine.links.push_back({"mem0-cpu0", "dram", 1, 0, capacity(2 * all_in_all), capacity(2 * all_in_all), {}, 0, 0});
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const auto g = static_cast<std::size_t>(gpu);
      const double fuller = std::max({paths.both[g], paths.in[g], paths.out[g]});
      machine.links.push_back({"cpu0-gpu" + std::to_string(gpu), "pcie", 0, 2 + gpu, capacity(paths.in[g]),
                               capacity(paths.out[g]), capacity(fuller), 0, 0});
    }
    if (gpus_ < 2) return;
    double widest = 0, narrowest = std::numeric_limits<double>::infinity();
    for (int a = 0; a < gpus_; ++a)
      for (int b = 0; b < gpus_; ++b)
        if (a != b) {
          widest = std::max(widest, widths_[a][b]);
          narrowest = std::min(narrowest, widths_[a][b]);
        }
    const double host_link = *std::ranges::max_element(paths.in);
    if (widest > beyond_the_host * host_link && narrowest >= alike * widest) {
      profile_.findings.push_back("the GPUs reach each other alike, at " + std::to_string(std::lround(widest)) +
                                  " GB/s: any order of them is as good");
      // Through a switch, a GPU sends to all others at once no faster than to one of them.
      if (gpus_ > 2 && all_to_all_ <= beyond_one_way * gpus_ * widest) return join_by_switch();
    }
    Constraint over_the_host{"peers over the host", {}, {}};
    std::vector<double> one_over_the_host, both_over_the_host;
    std::size_t pair = 0;
    for (int a = 0; a < gpus_; ++a)
      for (int b = a + 1; b < gpus_; ++b, ++pair) {
        const double width = std::min(widths_[a][b], widths_[b][a]);
        const bool is_of_the_wide = width >= alike * widest && narrowest < alike * widest;
        if (is_of_the_wide || is_direct(a, b, width, paths)) {
          machine.links.push_back({"gpu" + std::to_string(a) + "-gpu" + std::to_string(b), "nvlink", 2 + a, 2 + b,
                                   capacity(widths_[a][b]), capacity(widths_[b][a]), capacity(both_widths_[pair]), 0,
                                   0});
          continue;
        }
        for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
          const Term term{Traffic::peer, {from}, {to}, 1};
          machine.constraints.push_back({"peers " + std::to_string(from) + "→" + std::to_string(to) + " over the host",
                                         capacity(widths_[from][to]),
                                         {term}});
          over_the_host.terms.push_back(term);
          one_over_the_host.push_back(widths_[from][to]);
          cross_ways(paths, term);
        }
        both_over_the_host.push_back(both_widths_[pair]);
      }
    if (over_the_host.terms.empty()) return;
    const auto flows = static_cast<int>(over_the_host.terms.size());
    over_the_host.capacity = {{1, std::ranges::max(one_over_the_host)}, {2, median_of(both_over_the_host)}};
    // In the all-to-all exchange these flows finish last, so its duration determines their rate.
    if (flows > 2) over_the_host.capacity.push_back({flows, all_to_all_ * flows / (gpus_ * (gpus_ - 1))});
    machine.constraints.push_back(std::move(over_the_host));
    if (widest > narrowest / alike)
      profile_.findings.push_back("some GPUs reach each other only over the host: relays over others may pay");
  }

  // Whether a pair has a link of its own: it is faster than through the host or, where the link to the host is as fast,
  // what a GPU sends to its peer does not slow down what it sends to the host.
  bool is_direct(int a, int b, double width, const HostPaths& paths) {
    const double to_host = paths.out[static_cast<std::size_t>(a)];
    const double over_host = std::min(to_host, paths.in[static_cast<std::size_t>(b)]);
    if (width > beyond_the_host * over_host) return true;
    if (width < alike * over_host) return false;
    const double both =
        measure("device to device, beside the host", std::to_string(a) + "→" + std::to_string(b),
                {{Place::gpu(a), Place::gpu(b), options_.bytes}, {Place::gpu(a), Place::host(), options_.bytes}}, true);
    return both > beyond_one_way * std::max(width, to_host);
  }

  // Peer traffic through the host leaves and enters groups on the paths of host traffic, so it counts towards their
  // constraints.
  void cross_ways(const HostPaths& paths, const Term& term) {
    const int from = term.from.front(), to = term.to.front();
    for (const std::vector<int>& group : paths.groups) {
      const bool leaves = std::ranges::count(group, from) > 0, enters = std::ranges::count(group, to) > 0;
      if (leaves == enters) continue;
      for (Constraint& constraint : profile_.machine.constraints)
        for (const HostDirection direction : {leaves ? HostDirection::out : HostDirection::in, HostDirection::both})
          if (constraint.name == name_of_way(group, direction)) constraint.terms.push_back(term);
    }
  }

  void join_by_switch() {
    Machine& machine = profile_.machine;
    const int hub = static_cast<int>(machine.nodes.size());
    machine.nodes.push_back({"nvswitch", NodeKind::nvswitch});
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      std::vector<double> out;
      for (int b = 0; b < gpus_; ++b)
        if (b != gpu) out.push_back(widths_[gpu][b]);
      const Capacity width{{1, median_of(out)}};
      machine.links.push_back({"gpu" + std::to_string(gpu) + "-nvswitch",
                               "nvlink",
                               2 + gpu,
                               hub,
                               width,
                               width,
                               {{1, median_of(both_widths_)}},
                               0,
                               0});
    }
  }

  void local_and_pageable() {
    Machine& machine = profile_.machine;
    machine.gpu.local_copy_gb_per_s =
        measure("device, local", "0", {{Place::gpu(0), Place::gpu(0), 2 * options_.bytes}}, true);
    std::vector<Transfer> in;
    for (int gpu = 0; gpu < gpus_; ++gpu) in.push_back({Place::host(), Place::gpu(gpu), options_.bytes, true});
    machine.pageable_gb_per_s = measure("host to device, pageable", "all", in, true);
  }

  void start_ups() {
    CopyStartup& startup = profile_.machine.copy_startup;
    const auto microseconds = [&](const std::string& name, Place from, Place to) {
      const Measurement measured = prober_.smallest_copy(from, to);
      profile_.rows.push_back({name + ", smallest copy", from.name() + "→" + to.name(), measured, 0, true, 4, {}});
      return measured.seconds * 1e6;
    };
    startup.host_to_device_us = microseconds("host to device", Place::host(), Place::gpu(0));
    startup.device_to_host_us = microseconds("device to host", Place::gpu(0), Place::host());
    startup.local_us = microseconds("device, local", Place::gpu(0), Place::gpu(0));
    if (gpus_ > 1) startup.peer_us = microseconds("device to device", Place::gpu(0), Place::gpu(1));
  }

  // Predicts the measured patterns by simulating them on the fitted machine.
  void predict() {
    VirtualRuntime fitted(profile_.machine, VirtualMode::estimate, 0, make_virtual_kernels());
    Prober prober(fitted, 0);
    for (const Row& row : patterns_)
      profile_.rows[row.number].predicted_gb_per_s = prober.transfers(row.pattern).gb_per_s;
  }

  Runtime& runtime_;
  const ProbeOptions& options_;
  std::optional<HostPool> own_pool_;
  Prober prober_;
  int gpus_;
  std::vector<HostObservation> observations_;
  std::vector<std::vector<double>> widths_;  // GB/s from GPU to GPU
  std::vector<double> both_widths_;          // of each pair a < b, in order
  double all_to_all_ = 0;
  std::vector<Row> patterns_;
  Profile profile_;
};

}  // namespace

Profile quick_probe(Runtime& runtime, const ProbeOptions& options) { return QuickProbe(runtime, options).run(); }

}  // namespace linkwise
