// Relay paths over other GPUs: which of them to use, and for what fraction of the bytes.
//
// Hardware routes a copy over the link between its two ends or, without one, through the host. Two alternatives can
// be faster: to relay over a GPU that has wide links to both ends (which sort22 §7 leaves open), and to let GPUs that
// are close to the host's memory carry the host traffic of those that are not.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/topology.hpp"

namespace linkwise {

/// A path from one place to another over other GPUs, for a fraction of the bytes. The rest takes the direct route.
struct Path {
  Place from;
  Place to;
  std::vector<int> over;  ///< GPUs, in order
  double fraction = 1;

  friend bool operator==(const Path&, const Path&) = default;
};

/// "0→2→3" for GPUs; "host→4→0 50%" where the fraction is not all.
std::string to_string(const Path& path);

/// The best relay path over other GPUs of the set for each pair that meets at the host, if it is clearly wider than
/// the direct route: the one with the most width per hop. A path is as wide as its narrowest hop on its own.
std::vector<Path> peer_relays(Topology& topology, const std::vector<int>& gpus);

/// Total GB/s between all GPUs of the set and the host when each carries the same amount.
double even_host_rate(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable);

/// The share of all bytes between the host and the set that each GPU should carry. Concurrent copies get max-min fair
/// rates, so the GPUs that carry do so in proportion to their rates, and finish together. A GPU that lowers the
/// others' rates by more than its own rate carries nothing. The shares add up to 1.
struct HostShares {
  std::vector<double> share;  ///< by position in the set
  double gb_per_s = 0;        ///< total rate of all GPUs that carry
};
HostShares best_host_shares(Topology& topology, const std::vector<int>& gpus, Traffic direction, bool pageable);

/// The relay paths that give every GPU an equal part of the data while each GPU carries its share of the traffic. Of
/// the GPUs that carry more than their part, those with the widest route to the GPU that needs help come first.
std::vector<Path> host_relays(Topology& topology, const std::vector<int>& gpus, Traffic direction,
                              const HostShares& shares);

}  // namespace linkwise
