// Ways over other GPUs: which of them to use, and for how much.
//
// Hardware routes a copy by the link between its two ends, or through the host where there is none. Two things are
// faster: to relay over a GPU that has wide links to both ends (what sort22 §7 leaves open), and to let the GPUs that
// stand near the host's memory carry the host traffic of those that do not.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// A way from one place to another over other GPUs, for a fraction of the bytes. The rest goes straight.
struct Path {
  Place from;
  Place to;
  std::vector<int> over;  ///< GPUs, in order
  double fraction = 1;

  friend bool operator==(const Path&, const Path&) = default;
};

/// "0→2→3" for GPUs; "host→4→0 50%" where the fraction is not all.
std::string to_string(const Path& path);

/// The best way over other GPUs of the set for each two that meet at the host, where that is wider: the widest for its
/// number of hops. A way is as wide as its narrowest route alone.
std::vector<Path> peer_relays(Topology& topology, const std::vector<int>& gpus);

/// GB/s of all GPUs of the set together, between them and the host, when each carries the same.
double even_host_rate(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable);

/// What each GPU should carry of all bytes between the host and the set. Copies that run at once get max-min fair
/// rates, so those who carry do so in proportion to their rates, and all end together; who lowers the others' rates by
/// more than its own carries nothing. The shares add up to 1.
struct HostShares {
  std::vector<double> share;  ///< by position in the set
  double gb_per_s = 0;        ///< that all of them together carry
};
HostShares best_host_shares(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable);

/// The paths that give every GPU an equal part while each carries its share; of the GPUs that carry more than their
/// part, the one with the widest route helps first.
std::vector<Path> host_relays(Topology& topology, const std::vector<int>& gpus, Traffic direction,
                              const HostShares& shares);

}  // namespace linkwise
