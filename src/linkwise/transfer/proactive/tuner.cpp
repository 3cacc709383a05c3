#include "linkwise/transfer/proactive/tuner.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "linkwise/error.hpp"

namespace linkwise::proactive {
namespace {

constexpr double hopeless = 1.1;
constexpr int patience = 2;

class Search {
 public:
  Search(const TuningSpace& space, const std::function<double(const AgentPlan&)>& seconds)
      : space_(space), seconds_(seconds) {}

  void agent(Agent agent) {
    if (!is_decoupled(agent)) {
      (void)time({agent, space_.chunk_bytes.front(), space_.threads.front()});
      return;
    }
    const std::size_t kinds = has_threads(agent) ? space_.threads.size() : 1;
    if (space_.exhaustive) {
      for (std::size_t c = 0; c < space_.chunk_bytes.size(); ++c)
        for (std::size_t t = 0; t < kinds; ++t) (void)time(plan(agent, c, kinds - 1 - t));
      return;
    }
    best_ = 0;
    const auto middle = static_cast<int>(space_.chunk_bytes.size() / 2);
    std::vector<std::pair<double, int>> by_time;
    const auto try_chunk = [&](int c) {
      by_time.emplace_back(time(plan(agent, c, kinds - 1)), c);
      return by_time.back().first;
    };
    (void)try_chunk(middle);
    walk(middle + 1, static_cast<int>(space_.chunk_bytes.size()), 1, try_chunk);
    walk(middle - 1, -1, -1, try_chunk);
    std::ranges::sort(by_time);
    for (std::size_t at = 0; at < std::min<std::size_t>(2, by_time.size()); ++at)
      walk(static_cast<int>(kinds) - 2, -1, -1, [&](int t) { return time(plan(agent, by_time[at].second, t)); });
  }

  std::vector<Tried> result() && {
    std::ranges::stable_sort(tried_, {}, [](const Tried& one) { return std::pair(one.seconds, one.plan.threads); });
    return std::move(tried_);
  }

 private:
  static bool has_threads(Agent agent) { return agent == Agent::polling || agent == Agent::dynamic; }
  [[nodiscard]] AgentPlan plan(Agent agent, std::size_t chunk, std::size_t threads) const {
    return {agent, space_.chunk_bytes[chunk], has_threads(agent) ? space_.threads[threads] : space_.threads.back()};
  }

  template <typename Try>
  void walk(int from, int end, int step, Try&& attempt) {
    for (int at = from, lost = 0; at != end && lost < patience; at += step)
      lost = attempt(at) > hopeless * best_ ? lost + 1 : 0;
  }

  double time(const AgentPlan& plan) {
    const auto key = std::tuple(plan.agent, plan.chunk_bytes, plan.threads);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const double taken = seconds_(plan);
    known_.emplace(key, taken);
    tried_.push_back({plan, taken});
    best_ = best_ == 0 ? taken : std::min(best_, taken);
    return taken;
  }

  const TuningSpace& space_;
  const std::function<double(const AgentPlan&)>& seconds_;
  std::map<std::tuple<Agent, std::uint64_t, int>, double> known_;
  std::vector<Tried> tried_;
  double best_ = 0;  // of the agent at hand
};

}  // namespace

std::vector<Tried> tune(const TuningSpace& space, const std::function<double(const AgentPlan&)>& seconds) {
  if (space.agents.empty() || space.chunk_bytes.empty() || space.threads.empty())
    throw UsageError("there is nothing to try: name agents, chunk sizes and threads");
  Search search(space, seconds);
  for (const Agent agent : space.agents) search.agent(agent);
  return std::move(search).result();
}

}  // namespace linkwise::proactive
