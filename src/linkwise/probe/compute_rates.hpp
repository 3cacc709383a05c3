// Measures the processors' compute rates, with which the simulated clock and the planner price work.
#pragma once

#include "linkwise/probe/prober.hpp"

namespace linkwise {

/// Measures the primitives on the first GPU with up to `records` records, and the host's merge, gather and sort.
/// Rates that are not measured keep their values in `gpu` and `host`.
void measure_rates(Runtime& runtime, Prober& prober, std::uint64_t records, Processor& gpu, Processor& host);

}  // namespace linkwise
