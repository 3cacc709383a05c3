#include "linkwise/transfer/proactive/agent.hpp"

#include <array>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/mapping.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::array<std::string_view, 9> names{"bulk",        "memcpy",  "inline",   "polling", "dynamic",
                                                "copy_engine", "unified", "hardware", "infinite"};

constexpr std::uint64_t most_chunk_bytes = 1 << 30;

std::string size_in_words(std::uint64_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

Agent agent_from(std::string_view name) {
  for (std::size_t a = 0; a < names.size(); ++a)
    if (names[a] == name) return static_cast<Agent>(a);
  throw UsageError("there is no agent '" + std::string(name) +
                   "'; there are bulk, memcpy, inline, polling, dynamic, copy_engine, on real GPUs unified, and, "
                   "simulated, hardware and infinite");
}

std::string to_string(Agent agent) { return std::string(names.at(static_cast<std::size_t>(agent))); }

bool is_decoupled(Agent agent) {
  return agent == Agent::polling || agent == Agent::dynamic || agent == Agent::copy_engine || agent == Agent::hardware;
}

bool has_threads(Agent agent) { return agent == Agent::polling || agent == Agent::dynamic; }

bool is_only_simulated(Agent agent) { return agent == Agent::hardware || agent == Agent::infinite; }

std::string AgentPlan::to_string() const {
  std::string text = proactive::to_string(agent);
  if (is_decoupled(agent)) text += " " + size_in_words(chunk_bytes);
  if (has_threads(agent)) text += " " + std::to_string(threads);
  return text;
}

void check_plan(const AgentPlan& plan, bool simulated) {
  if (is_only_simulated(plan.agent) && !simulated)
    throw UsageError("the agent '" + to_string(plan.agent) + "' exists on described machines only; name one");
  if (plan.agent == Agent::unified && simulated)
    throw UsageError("the agent 'unified' exists on real GPUs only; simulated ones have no unified memory");
  if (plan.chunk_bytes > most_chunk_bytes)
    throw UsageError("chunks have 1 GiB at most, not " + std::to_string(plan.chunk_bytes) + " bytes");
  if (plan.chunk_bytes == 0 || plan.chunk_bytes % page_bytes != 0)
    throw UsageError("chunks are whole pages of " + std::to_string(page_bytes) + " bytes, not " +
                     std::to_string(plan.chunk_bytes) + " bytes");
  if (plan.threads < 32 || plan.threads > 1 << 16 || plan.threads % 32 != 0)
    throw UsageError("an agent has from 32 to 65536 threads, in warps of 32, not " + std::to_string(plan.threads));
  if (!(plan.patience > 0 && plan.patience <= 1e6))
    throw UsageError("an agent is patient for more than 0 and up to 10⁶ seconds, not " + std::to_string(plan.patience));
}

double KernelPrice::seconds_on(const Processor& gpu) const {
  // A copy reads and writes each byte: its memory traffic is twice its size.
  return seconds + memory_bytes / (2e9 * gpu.local_copy_gb_per_s);
}

}  // namespace linkwise::proactive
