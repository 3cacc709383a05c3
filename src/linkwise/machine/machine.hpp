// What a machine is: nodes, links, constraints on concurrent traffic, and the rates of its processors.
//
// Pure data. A `Machine` is read from a JSON file by Python (python/linkwise/machines/) or built by
// hand; `Topology` (topology.hpp) compiles it into routes over shared resources.
//
// Units: GB/s are 10^9 bytes per second, GiB are 2^30 bytes, microseconds and picoseconds as named.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace linkwise {

enum class NodeKind { socket, memory, pcie_switch, gpu, nvswitch, nic, network };

/// GPUs and memories are numbered by their order among the nodes of their kind.
struct Node {
  std::string name;
  NodeKind kind = NodeKind::socket;
};

/// The throughput of a shared resource, by the number of flows that use it at once.
///
/// Points are (flows, GB/s), linear in between and constant outside. One point is a plain capacity; a second, lower
/// one models contention: sort22 §4.2 observes it on the X-Bus, which loses bandwidth to retries as streams are
/// added, and the host DRAM of a machine with eight H200s shows it too.
struct CapacityPoint {
  int flows = 1;
  double gb_per_s = 0;
};
using Capacity = std::vector<CapacityPoint>;

struct Link {
  std::string name;
  std::string kind;  ///< "nvlink2", "nvlink3", "pcie4", "xbus", "upi", …; "nvlink*" carries peer traffic only
  int a = 0;         ///< index of a node
  int b = 0;
  Capacity forward;   ///< a → b
  Capacity backward;  ///< b → a
  Capacity duplex;    ///< both directions together; empty: no limit of its own
  double latency_us = 0;
  double nominal_gb_per_s = 0;  ///< per direction, as the vendor states it; 0 where unknown
};

enum class Traffic { host_to_device, device_to_host, peer };

/// Selects transfers by kind and ends, and says how much of a constraint one byte of them costs.
/// `from` and `to` hold GPU numbers, or host memory numbers at a host end; empty means any.
struct Term {
  Traffic traffic = Traffic::host_to_device;
  std::vector<int> from;
  std::vector<int> to;
  double weight = 1;
};

/// Σ weight · rate ≤ capacity over the transfers that a term selects (the first that matches counts).
struct Constraint {
  std::string name;
  Capacity capacity;
  std::vector<Term> terms;
};

/// The time of an operation on `records` records of `bytes` bytes each, in `passes` passes:
/// fixed_us + passes · records · (ps_per_record + ps_per_byte · bytes).
struct Rate {
  double fixed_us = 0;
  double ps_per_record = 0;
  double ps_per_byte = 0;
};

struct Processor {
  std::string name;
  double memory_gib = 0;
  double local_copy_gb_per_s = 0;  ///< bytes copied within its memory, counted once
  std::map<std::string, Rate> rates;
};

/// How many copies of each kind a GPU can run at once; further ones wait.
struct CopyEngines {
  int host_to_device = 1;
  int device_to_host = 1;
  int peer = 1;
};

/// Time from issuing the smallest copy to its end, by kind of traffic.
struct CopyStartup {
  double host_to_device_us = 0;
  double device_to_host_us = 0;
  double peer_us = 0;
  double local_us = 0;
};

/// The costs of sending chunks while kernels run (proact21 §III-C). The defaults were measured on an H200.
struct AgentCosts {
  double inline_stall = 0.01;      ///< fraction of the time of its own stores to peers for which a kernel stalls
  double memory_share = 0.03;      ///< fraction of a kernel's memory bandwidth that counting and sending take
  double tracking_ns = 0.05;       ///< added to the time of all blocks, for each block and chunk that it writes
  double polling_us = 0.012;       ///< a polling agent's time per chunk
  double polling_share = 0.003;    ///< fraction of the SMs that polling with saturating_threads takes from the kernel
  double polling_goodput = 0.965;  ///< a polling agent's throughput as a fraction of that of copies
  double dynamic_us = 0.38;        ///< the agent `dynamic`'s time per launch
  double dynamic_share = 0.3;      ///< relative increase of the kernel's time: half an SM is left to launched kernels
  int saturating_threads = 2300;   ///< threads with which storing agents saturate the links
  double copy_engine_us = 6.5;     ///< time that a stream takes to see a flag and start a copy
};

struct Machine {
  std::string name;
  std::string description;
  std::string source;  ///< where the numbers come from
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<Constraint> constraints;
  Processor gpu;
  Processor host;
  CopyEngines copy_engines;
  CopyStartup copy_startup;
  double pageable_gb_per_s = 0;  ///< all transfers from and to pageable memory together

  /// Copies between peers without a link of their own are staged through host memory, as without peer access, instead
  /// of going straight through switches and sockets (tartan20 §3.1.2 measures this).
  bool staged_peers = false;
  double staged_peer_gb_per_s = 0;  ///< limit on what one GPU sends that way; 0: the rate of its links
  /// Limits on a kernel's reads and writes of pinned host memory (zero-copy); 0: the rate of copies (commscope19
  /// §4.4).
  double zero_copy_read_gb_per_s = 0;
  double zero_copy_write_gb_per_s = 0;
  /// Useful fraction of the bytes on a link to a peer, by store size in bytes; linear in between (proact21 fig. 2).
  std::map<int, double> store_goodput;
  AgentCosts agents;

  [[nodiscard]] int num_gpus() const;
  [[nodiscard]] int num_host_memories() const;
  /// Cost of gathering a row of a column on the host's cores; unless measured, that of 32 cores.
  [[nodiscard]] Rate host_gather_rate() const;
  /// The share of bytes that are useful where stores of that size cross a link to a peer.
  [[nodiscard]] double goodput_of_stores(int bytes) const;
  /// @throws UsageError naming the first thing that is wrong (a link to nowhere, a capacity of zero, …).
  void validate() const;
};

}  // namespace linkwise
