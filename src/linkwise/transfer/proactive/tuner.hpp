// Finds the best plan for a kernel on a machine by trying plans (proact21 §III-A): agent × granularity × threads.
#pragma once

#include <functional>
#include <vector>

#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::proactive {

struct TuningSpace {
  std::vector<Agent> agents{Agent::bulk, Agent::inline_, Agent::polling, Agent::dynamic, Agent::copy_engine};
  std::vector<std::uint64_t> chunk_bytes{4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
  std::vector<int> threads{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  /// Tries everything. Otherwise a hill climb: from the middle granularity outwards at the highest number of threads,
  /// then over the numbers of threads at the best granularity, then to the four diagonal neighbours of the best plan;
  /// repeated around the best plan until there is no better one. A direction ends after two plans in a row that are
  /// more than a tenth slower than the agent's best, since each of fig. 6's curves has a single peak.
  bool exhaustive = false;
};

struct Tried {
  AgentPlan plan;
  double seconds = 0;
};

/// Everything that was tried, the fastest first; of equally fast plans, the one with the fewest threads. The first
/// four were tried again, in turn, and have the medians of these times.
/// `seconds` runs the application under a plan and returns its time. @throws UsageError if that is not a number or is
/// negative, and what `seconds` throws.
std::vector<Tried> tune(const TuningSpace& space, const std::function<double(const AgentPlan&)>& seconds);

}  // namespace linkwise::proactive
