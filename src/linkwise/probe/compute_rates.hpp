// What the processors do: the rates that the simulated clock and the planner price work with.
#pragma once

#include "linkwise/probe/prober.hpp"

namespace linkwise {

/// Measures the GPU's primitives on the first GPU, and the host's merge and sort, with up to `records` records.
/// Rates that are not measured keep what the runtime's machine says.
void measure_rates(Runtime& runtime, Prober& prober, std::uint64_t records, Processor& gpu, Processor& host);

}  // namespace linkwise
