// Small programs that show what regions do, and how errors in programs are reported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::apps {

/// The pages of a region of `count` floats that each of `blocks` blocks writes, found by a dry run of a kernel with
/// scattered stores. The kernel is declared to write only within the first `said` floats.
std::vector<std::vector<std::uint32_t>> dry_run_of_scatter(Runtime& runtime, std::uint32_t blocks, std::uint64_t count,
                                                           std::uint64_t said);
/// The same pages, computed from the kernel's store positions without a dry run.
std::vector<std::vector<std::uint32_t>> pages_of_scatter(std::uint32_t blocks, std::uint64_t count);

/// GPU 1's copy of the array after GPU 0 has run the kernel twice, with the mapping that a dry run finds.
std::vector<float> run_scatter(Runtime& runtime, proactive::Agent agent, std::uint32_t blocks, std::uint64_t count);

/// GPU 1's copy of the triples 0 1 2, 3 4 5 and so on that GPU 0 produces; some straddle pages. GPU 1 produces
/// nothing itself, and needs all but the first page.
std::vector<float> run_triples(Runtime& runtime, proactive::Agent agent, std::uint64_t count);

/// GPU 0 produces an array twice, and GPU 1 reads it each time. The error: "mapping", a block stores outside its
/// chunks; "far", outside of the array; "flush", the reader does not wait until the array has arrived; "consumed",
/// the array is produced again while it is read; "checked", a wrong mapping, which is checked by a dry run; or
/// "none".
void run_wrong_producer(Runtime& runtime, const std::string& what, proactive::Agent agent);

/// The number of threads that send GPU 0's output to GPU 1, as counted by the GPU (ProducerBase::senders).
std::uint32_t senders_of(Runtime& runtime, const proactive::AgentPlan& plan);

/// GPU 0 takes `seconds` to produce an array, but a polling agent, or with another agent the host, waits only for
/// `patience` seconds: returns the error message. The next epoch must be right again. @throws ProgramError if it is
/// not, or if there was no error.
std::string run_slow_producer(Runtime& runtime, proactive::Agent agent, double seconds, double patience);

}  // namespace linkwise::apps
