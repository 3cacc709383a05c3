// Small programs that show what regions do, and what happens to programs that are wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::apps {

/// The pages that each of so many blocks writes of a region of `count` floats, found by a dry run of a kernel that
/// stores in places that only it knows; `said` of the floats, from the first on, are said to be all that it writes.
std::vector<std::vector<std::uint32_t>> dry_run_of_scatter(Runtime& runtime, std::uint32_t blocks, std::uint64_t count,
                                                           std::uint64_t said);
/// The same, from what the kernel is known to do.
std::vector<std::vector<std::uint32_t>> pages_of_scatter(std::uint32_t blocks, std::uint64_t count);

/// What GPU 1 has of the array after GPU 0 has run the kernel twice, with the mapping that a dry run finds.
std::vector<float> run_scatter(Runtime& runtime, proactive::Agent agent, std::uint32_t blocks, std::uint64_t count);

/// What GPU 1, which makes nothing itself and needs all but the first page, has of triples 0 1 2, 3 4 5 and so on that
/// GPU 0 makes: some lie across pages.
std::vector<float> run_triples(Runtime& runtime, proactive::Agent agent, std::uint64_t count);

/// GPU 0 makes an array twice, and GPU 1 reads it in between. What is wrong: "mapping", a block stores outside its
/// chunks; "far", outside of the array; "flush", nobody waits until the array has arrived; "consumed", it is made
/// again while it is read; "checked", the mapping, which is asked for by a dry run; or "none".
void run_wrong_producer(Runtime& runtime, const std::string& what, proactive::Agent agent);

/// The threads that send what GPU 0 makes to GPU 1, as the GPU counts them (ProducerBase::senders).
std::uint32_t senders_of(Runtime& runtime, const proactive::AgentPlan& plan);

/// GPU 0 takes so many seconds over an array and its agent, or whoever waits for it, for less: returns what is said of
/// that. Afterwards the next epoch must be right. @throws ProgramError if it is not, or if nobody complains.
std::string run_slow_producer(Runtime& runtime, proactive::Agent agent, double seconds, double patience);

}  // namespace linkwise::apps
