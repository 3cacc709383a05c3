// Measures a machine within seconds, well enough for planning.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/probe/host_paths.hpp"
#include "linkwise/probe/prober.hpp"

namespace linkwise {

struct ProbeOptions {
  std::uint64_t bytes = 128 << 20;                    ///< per host transfer; twice as many between and within GPUs
  std::uint64_t records = 1 << 26;                    ///< for each compute rate of the GPU
  double patience_seconds = 0.05;                     ///< for each measurement
  std::uint64_t pool_bytes = std::uint64_t{4} << 30;  ///< pinned memory to send from, and as much to receive in
  const HostPool* pool = nullptr;                     ///< the caller's pool instead, unless null
  int other_sets = 3;  ///< random GPU sets of each size for the fit, and as many to validate it
};

struct Profile {
  Machine machine;  ///< the runtime's machine, with measured values in place of assumed ones
  std::vector<ProbeRow> rows;
  std::vector<std::string> findings;
};

/// Measures host traffic of single GPUs, pairs and larger sets, traffic between GPUs, start-up times and compute
/// rates; infers which paths GPUs share; and validates the fitted machine against sets that were not part of the fit.
/// On a virtual machine it probes the simulated hardware. @throws CorruptDataError if a link does not deliver what
/// was sent.
Profile quick_probe(Runtime& runtime, const ProbeOptions& options);

}  // namespace linkwise
