// Who sends a finished chunk to the peers, and how it is set up (proact21 §III-C, §IV-B).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "linkwise/error.hpp"
#include "linkwise/machine/machine.hpp"

namespace linkwise::proactive {

enum class Agent {
  bulk,         ///< copies after the kernel, to all peers at once: the baseline
  memcpy,       ///< likewise, but all GPUs' copies one after the other, as one host thread's cudaMemcpy makes them
  inline_,      ///< the kernel's own stores go to the peers as well
  polling,      ///< resident blocks that wait for chunks and store them to the peers
  dynamic,      ///< a kernel for each chunk, launched by the block that has written it last
  copy_engine,  ///< copies queued behind waits for the chunks' flags: no SM moves data
  unified,      ///< one array in unified memory, replicated and prefetched after the kernel; real GPUs alone
  hardware,     ///< counters and copies by hardware of their own, as proact21 §III-D proposes; simulated only
  infinite      ///< links without limits, the most that there is to gain; simulated only
};

Agent agent_from(std::string_view name);
std::string to_string(Agent agent);
/// Whether chunks are counted down and sent by themselves (proact21 calls this decoupled).
bool is_decoupled(Agent agent);
/// Whether threads of its own store the chunks.
bool has_threads(Agent agent);
/// Whether only the virtual machine has it.
bool is_only_simulated(Agent agent);

struct AgentPlan {
  Agent agent = Agent::polling;          ///< all as here without tuning: what was best, or nearly, for most kernels
  std::uint64_t chunk_bytes = 64 << 10;  ///< whole pages (mapping.hpp)
  int threads = 4096;    ///< that store to the peers: of a polling agent; of a dynamic one, for each chunk. Whole warps
  double patience = 10;  ///< seconds that a GPU waits for a chunk, or for room to launch, before it gives up

  /// As proact21 table II writes it: "polling 256 KiB 8192", or "inline".
  [[nodiscard]] std::string to_string() const;
};

/// A kernel that was not compiled to launch others was to be sent by the agent `dynamic`.
struct CannotLaunchError : UsageError {
  CannotLaunchError()
      : UsageError(
            "the agent 'dynamic' has your kernel launch others: compile it with nvcc -rdc=true and link cudadevrt, "
            "or take another agent") {}
};

/// @throws UsageError for an agent that the machine has not, chunks that are no whole pages, or no threads.
void check_plan(const AgentPlan& plan, bool simulated);

/// What leaves of what a kernel makes. Other than `chunks` it is for measuring, and peers keep what they had.
enum class Sends {
  chunks,    ///< what the agent is there for
  nothing,   ///< kernels and tracking alone (proact21 fig. 8 and 9)
  unordered  ///< `bulk` copies beside the kernel, whatever it has made: how much the two are in each other's way
};

/// What a kernel costs on the simulated clock: the bytes that it reads and writes in its GPU's memory, at the rate of a
/// copy, and what it takes besides.
struct KernelPrice {
  double memory_bytes = 0;
  double seconds = 0;
  int store_bytes = 128;  ///< how large the stores become that a kernel sends to peers itself
  [[nodiscard]] double seconds_on(const Processor& gpu) const;
};

}  // namespace linkwise::proactive
