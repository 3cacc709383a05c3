// Families of copies through the runtime, between any two places: single ones and many at once.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "linkwise/machine/paths.hpp"
#include "linkwise/machine/symmetry.hpp"
#include "linkwise/probe/families.hpp"

namespace linkwise {
namespace {

constexpr double worth_telling = 1.03;  // times the rate of equal shares: uneven shares below this are not reported

enum class Way { in, out, both };
constexpr Way ways[] = {Way::in, Way::out, Way::both};

std::string suffix(Way way) { return way == Way::in ? ", in" : way == Way::out ? ", out" : ", both ways"; }

std::string joined(const std::vector<int>& gpus) {
  std::string text;
  for (const int gpu : gpus) text += (text.empty() ? "" : ",") + std::to_string(gpu);
  return text;
}

std::string pair_name(int a, int b) { return std::to_string(a) + "→" + std::to_string(b); }

Transfer peer(int a, int b, std::uint64_t bytes) { return {Place::gpu(a), Place::gpu(b), bytes}; }

void add_host(std::vector<Transfer>& pattern, int gpu, Way way, std::uint64_t bytes) {
  if (way != Way::out) pattern.push_back({Place::host(), Place::gpu(gpu), bytes});
  if (way != Way::in) pattern.push_back({Place::gpu(gpu), Place::host(), bytes});
}

std::vector<Transfer> host(const std::vector<int>& gpus, Way way, std::uint64_t bytes) {
  std::vector<Transfer> pattern;
  for (const int gpu : gpus) add_host(pattern, gpu, way, bytes);
  return pattern;
}

std::vector<int> everybody(const FamilyContext& context) {
  std::vector<int> all(static_cast<std::size_t>(context.num_gpus()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool needs_two(FamilyContext& context) {
  if (context.num_gpus() < 2) context.cannot("all", "it takes two GPUs");
  return context.num_gpus() >= 2;
}

// One GPU pair of each kind, regardless of direction.
std::vector<std::vector<int>> distinct_pairs(const FamilyContext& context) {
  Topology topology(context.fitted);
  std::vector<std::vector<int>> pairs = distinct_gpu_sets(topology);
  std::erase_if(pairs, [](const std::vector<int>& set) { return set.size() != 2; });
  return pairs;
}

void host_curves(FamilyContext& context) {
  for (int gpu = 0; gpu < context.num_gpus(); ++gpu)
    for (const Way way : ways) {
      // The largest sizes only on the first GPU: they take longest and add least information.
      const std::uint64_t most = gpu == 0 ? context.options.largest : context.options.bytes;
      for (const std::uint64_t bytes : curve_sizes(most))
        context.transfers(std::to_string(gpu) + suffix(way), host({gpu}, way, bytes));
    }
}

void peer_curves(FamilyContext& context) {
  if (!needs_two(context)) return;
  for (const std::vector<int>& pair : distinct_pairs(context))
    for (const std::uint64_t bytes : curve_sizes(context.options.largest)) {
      const int a = pair[0], b = pair[1];
      context.transfers(pair_name(a, b), {peer(a, b, bytes)});
      context.transfers(pair_name(a, b) + ", both ways", {peer(a, b, bytes), peer(b, a, bytes)});
    }
}

void local_curve(FamilyContext& context) {
  for (const std::uint64_t bytes : curve_sizes(context.options.largest)) context.transfers("0", {peer(0, 0, bytes)});
}

void host_sets(FamilyContext& context) {
  Topology topology(context.fitted);
  for (const std::vector<int>& set : distinct_gpu_sets(topology))
    for (const Way way : ways) context.transfers(joined(set) + suffix(way), host(set, way, context.options.bytes));
}

void uneven_host_sets(FamilyContext& context) {
  const std::size_t before = context.rows.size();
  Topology topology(context.fitted);
  for (const std::vector<int>& set : distinct_gpu_sets(topology)) {
    if (set.size() < 2) continue;
    for (const Way way : {Way::in, Way::out}) {
      const Traffic traffic = way == Way::in ? Traffic::host_to_device : Traffic::device_to_host;
      const HostShares shares = best_host_shares(topology, set, traffic, false);
      if (shares.gb_per_s < worth_telling * even_host_rate(topology, set, traffic, false)) continue;
      std::vector<Transfer> pattern;
      std::string text;
      for (std::size_t i = 0; i < set.size(); ++i) {
        const double bytes = shares.share[i] * static_cast<double>(set.size() * context.options.bytes);
        text += (text.empty() ? " (" : " ") + std::to_string(std::lround(100 * shares.share[i])) + " %";
        if (bytes >= 1 << 20) add_host(pattern, set[i], way, static_cast<std::uint64_t>(bytes) / 4096 * 4096);
      }
      context.transfers(joined(set) + text + ")" + suffix(way), pattern);
    }
  }
  if (context.rows.size() == before) context.cannot("all", "there is no set of which unequal parts carry more");
}

// tartan20 §3.1.1, figure 5: start-up latencies of copies.
void latencies(FamilyContext& context) {
  for (int a = 0; a < context.num_gpus(); ++a) {
    context.smallest_copy("host→" + std::to_string(a), Place::host(), Place::gpu(a));
    context.smallest_copy(std::to_string(a) + "→host", Place::gpu(a), Place::host());
    for (int b = 0; b < context.num_gpus(); ++b) context.smallest_copy(pair_name(a, b), Place::gpu(a), Place::gpu(b));
  }
}

// sort22 §4.4: the first GPU exchanges with the last, the second with the second to last, …
void mirrored_pairs(FamilyContext& context) {
  if (!needs_two(context)) return;
  for (int gpus = 2; gpus <= context.num_gpus(); gpus += 2) {
    std::vector<Transfer> pattern;
    for (int g = 0; g < gpus; ++g) pattern.push_back(peer(g, gpus - 1 - g, context.options.bytes));
    context.transfers("0 … " + std::to_string(gpus - 1), pattern);
  }
}

void one_and_all(FamilyContext& context) {
  if (!needs_two(context)) return;
  const int gpus = context.num_gpus();
  std::vector<Transfer> all_to_all;
  for (int step = 1; step < gpus; ++step)
    for (int g = 0; g < gpus; ++g) all_to_all.push_back(peer(g, (g + step) % gpus, context.options.bytes));
  for (int g = 0; g < gpus; ++g) {
    std::vector<Transfer> to_all, from_all;
    for (int step = 1; step < gpus; ++step) {
      to_all.push_back(peer(g, (g + step) % gpus, context.options.bytes));
      from_all.push_back(peer((g + step) % gpus, g, context.options.bytes));
    }
    context.transfers(std::to_string(g) + " to all", to_all);
    context.transfers("all to " + std::to_string(g), from_all);
  }
  context.transfers("all to all", all_to_all);
}

// The traffic of a streamed exchange: pieces are copied in while others go from GPU to GPU.
void mixed(FamilyContext& context) {
  if (!needs_two(context)) return;
  const int gpus = context.num_gpus();
  for (const Way way : ways) {
    std::vector<Transfer> pattern = host(everybody(context), way, context.options.bytes);
    for (int g = 0; g < gpus; ++g) pattern.push_back(peer(g, (g + 1) % gpus, context.options.bytes));
    context.transfers("all" + suffix(way) + ", and each to the next", pattern);
  }
}

// tartan20 §3.1.3, figures 14: relays over each third GPU, stored and forwarded or pipelined in chunks.
void relays(FamilyContext& context) {
  if (context.num_gpus() < 3) return context.cannot("all", "it takes three GPUs");
  const std::uint64_t bytes = context.options.bytes;
  for (const std::vector<int>& pair : distinct_pairs(context)) {
    const int a = pair[0], b = pair[1];
    context.transfers(pair_name(a, b) + ", straight", {peer(a, b, bytes)});
    for (int over = 0; over < context.num_gpus(); ++over) {
      if (over == a || over == b) continue;
      Transfer relayed = peer(a, b, bytes);
      relayed.over = {over};
      const std::string way = std::to_string(a) + "→" + pair_name(over, b);
      context.transfers(way + ", in chunks", {relayed});
      relayed.relay_bytes = bytes;
      context.transfers(way + ", stored and forwarded", {relayed});
    }
  }
}

void pageable(FamilyContext& context) {
  for (int gpu = 0; gpu < context.num_gpus(); ++gpu)
    for (const Way way : ways) {
      std::vector<Transfer> pattern = host({gpu}, way, context.options.bytes);
      for (Transfer& transfer : pattern) transfer.pageable = true;
      context.transfers(std::to_string(gpu) + suffix(way), pattern);
    }
}

}  // namespace

std::vector<ProbeFamily> transfer_families() {
  return {
      {"host by size", "pinned copies in, out and both ways at once, 4 B to 4 GiB, each GPU", host_curves},
      {"host pageable", "copies from and to ordinary memory through a pinned ring, each GPU", pageable},
      {"host sets", "pinned copies of GPU sets at once: one set of each kind, equal parts", host_sets},
      {"host sets uneven", "the same sets, each GPU carrying what suits its way best", uneven_host_sets},
      {"peer by size", "copies between two GPUs, one way and both, 4 B to 4 GiB, one pair of each kind", peer_curves},
      {"local by size", "copies within a GPU's memory, 4 B to 4 GiB", local_curve},
      {"peer latency", "the smallest copy between any two GPUs, within each, and from and to the host", latencies},
      {"peer mirrored pairs", "the first GPU with the last, the second with the one before, … at once", mirrored_pairs},
      {"peer one and all", "one GPU to all, all to one, all to all", one_and_all},
      {"host and peer mixed", "all GPUs with the host while each sends to the next", mixed},
      {"peer relays", "over each GPU between two others: in chunks, and stored and then forwarded", relays},
  };
}

}  // namespace linkwise
