// A machine measured well enough to plan with, in seconds.
#pragma once

#include <string>
#include <vector>

#include "linkwise/machine/machine.hpp"
#include "linkwise/probe/host_paths.hpp"
#include "linkwise/probe/prober.hpp"

namespace linkwise {

struct ProbeOptions {
  std::uint64_t bytes = 128 << 20;                    ///< that each transfer copies
  std::uint64_t records = 1 << 26;                    ///< that each rate is measured with
  double patience_seconds = 0.05;                     ///< for each measurement
  std::uint64_t pool_bytes = std::uint64_t{4} << 30;  ///< of host memory to send from, and as many to receive in
  const HostPool* pool = nullptr;                     ///< other memory instead
  int other_sets = 3;  ///< of each size and direction, for the fit; and as many to check it
};

struct Profile {
  Machine machine;  ///< the runtime's, with what was measured in place of what was assumed
  std::vector<ProbeRow> rows;
  std::vector<std::string> findings;
};

/// Measures host traffic alone, in pairs and in sets, traffic between GPUs, start-ups and compute rates; infers what
/// ways GPUs share; and checks the fitted machine against sets that it was not fitted to. On a virtual machine it
/// finds out about that machine. @throws CorruptDataError if a link does not deliver what was sent.
Profile quick_probe(Runtime& runtime, const ProbeOptions& options);

}  // namespace linkwise
