// The agents that send finished chunks to the peers, and their settings (proact21 §III-C, §IV-B).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "linkwise/error.hpp"
#include "linkwise/machine/machine.hpp"

namespace linkwise::proactive {

enum class Agent {
  bulk,         ///< copies after the kernel, to all peers at once: the baseline
  memcpy,       ///< as `bulk`, but all GPUs' copies run one after the other, as with one host thread's cudaMemcpy
  inline_,      ///< the kernel's own stores go to the peers as well
  polling,      ///< resident blocks that wait for chunks and store them to the peers
  dynamic,      ///< a kernel for each chunk, launched by the last block that writes it
  copy_engine,  ///< copies queued behind stream waits for the chunks' counters: no SM moves data
  unified,      ///< one array in unified memory, replicated and prefetched after the kernel; real GPUs only
  hardware,     ///< counters and copies by dedicated hardware, as proact21 §III-D proposes; simulated only
  infinite      ///< links of unlimited bandwidth, an upper bound on the gain; simulated only
};

Agent agent_from(std::string_view name);
std::string to_string(Agent agent);
/// Whether the writes to each chunk are counted, and finished chunks are sent one by one (proact21: decoupled).
bool is_decoupled(Agent agent);
/// Whether the agent has threads of its own, which store the chunks.
bool has_threads(Agent agent);
/// Whether only the virtual machine has it.
bool is_only_simulated(Agent agent);

struct AgentPlan {
  Agent agent = Agent::polling;          ///< these defaults, untuned, were best or nearly best for most kernels
  std::uint64_t chunk_bytes = 64 << 10;  ///< whole pages (mapping.hpp)
  int threads = 4096;    ///< that store to the peers, in all (polling) or for each chunk (dynamic); whole warps
  double patience = 10;  ///< seconds that a GPU waits for a chunk, or for room to launch, before it gives up

  /// As proact21 table II writes it: "polling 256 KiB 8192", or "inline".
  [[nodiscard]] std::string to_string() const;
};

/// The agent `dynamic` was chosen for a kernel that was not compiled to launch others.
struct CannotLaunchError : UsageError {
  CannotLaunchError()
      : UsageError(
            "the agent 'dynamic' has your kernel launch others: compile it with nvcc -rdc=true and link cudadevrt, "
            "or take another agent") {}
};

/// @throws UsageError for an agent that the machine lacks, chunks that are not whole pages, or an invalid number of
/// threads or patience.
void check_plan(const AgentPlan& plan, bool simulated);

/// What is sent of a kernel's output. All but `chunks` are for measurements only: peers then do not get correct data.
enum class Sends {
  chunks,    ///< what the agent is there for
  nothing,   ///< kernels and tracking alone (proact21 fig. 8 and 9)
  unordered  ///< `bulk` copies concurrent with the kernel, finished or not: how much the two interfere
};

/// The cost of a kernel on the simulated clock: the bytes that it reads and writes in its GPU's memory, at the rate
/// of a copy, plus `seconds`.
struct KernelPrice {
  double memory_bytes = 0;
  double seconds = 0;
  int store_bytes = 128;  ///< size of a kernel's own stores to peers
  [[nodiscard]] double seconds_on(const Processor& gpu) const;
};

}  // namespace linkwise::proactive
