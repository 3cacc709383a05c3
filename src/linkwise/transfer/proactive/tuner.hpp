// The best plan for a kernel on a machine, by trying (proact21 §III-A): agent × granularity × threads.
#pragma once

#include <functional>
#include <vector>

#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::proactive {

struct TuningSpace {
  std::vector<Agent> agents{Agent::bulk, Agent::inline_, Agent::polling, Agent::dynamic, Agent::copy_engine};
  std::vector<std::uint64_t> chunk_bytes{4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
  std::vector<int> threads{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  /// Tries everything. Otherwise a search goes on in a direction only while it promises something: from the middle
  /// granularity outwards at the most threads, then over the threads at the best one, then to its four diagonal
  /// neighbours, and again about the best plan until there is no better one. A direction ends where twice in a row a
  /// tenth is lost to the agent's best, since each of fig. 6's curves rises to one place and falls.
  bool exhaustive = false;
};

struct Tried {
  AgentPlan plan;
  double seconds = 0;
};

/// Everything that was tried, the best first, and of several as good as each other the one with the fewest threads. The
/// first four were tried again, in turn, and have the medians of that.
/// `seconds` runs the application under a plan. @throws UsageError if that is no number, or below 0, and what
/// `seconds` throws.
std::vector<Tried> tune(const TuningSpace& space, const std::function<double(const AgentPlan&)>& seconds);

}  // namespace linkwise::proactive
