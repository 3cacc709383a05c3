#include "linkwise/transfer/proactive/tuner.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "linkwise/error.hpp"

namespace linkwise::proactive {
namespace {

constexpr double hopeless = 1.1;
constexpr int patience = 2;
constexpr std::size_t finalists = 4, rounds = 5;

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
    const auto chunks = static_cast<int>(space_.chunk_bytes.size()), threads = static_cast<int>(kinds);
    best_ = Best{time(plan(agent, chunks / 2, threads - 1)), chunks / 2, threads - 1};
    const auto attempt = [&](int c, int t) {
      const double taken = time(plan(agent, c, t));
      if (taken < best_.seconds) best_ = {taken, c, t};
      return taken;
    };
    for (Best before; before.seconds != best_.seconds;) {
      before = best_;
      walk(before.chunk, chunks, [&](int c) { return attempt(c, before.threads); });
      const int chunk = best_.chunk;
      walk(best_.threads, threads, [&](int t) { return attempt(chunk, t); });
      const Best corner = best_;
      for (const int c : {corner.chunk - 1, corner.chunk + 1})
        for (const int t : {corner.threads - 1, corner.threads + 1})
          if (c >= 0 && c < chunks && t >= 0 && t < threads) (void)attempt(c, t);
    }
  }

  std::vector<Tried> result() && {
    sort(tried_);
    compare(std::span(tried_).first(std::min(finalists, tried_.size())));
    return std::move(tried_);
  }

 private:
  static void sort(std::span<Tried> tried) {
    std::ranges::stable_sort(tried, {}, [](const Tried& one) { return std::pair(one.seconds, one.plan.threads); });
  }

  /// The best of many were partly lucky, so they are timed again: in turn, so that changes of the machine affect all.
  void compare(std::span<Tried> best) {
    std::vector<std::vector<double>> again(best.size());
    for (std::size_t round = 0; round < rounds; ++round) {
      bool is_same = true;
      for (std::size_t b = 0; b < best.size(); ++b) {
        again[b].push_back(seconds_of(best[b].plan));
        is_same = is_same && again[b].back() == best[b].seconds;
      }
      if (is_same) return;  // the clock is a simulated one
    }
    for (std::size_t b = 0; b < best.size(); ++b) {
      std::ranges::nth_element(again[b], again[b].begin() + rounds / 2);
      best[b].seconds = again[b][rounds / 2];
    }
    sort(best);
  }

  [[nodiscard]] AgentPlan plan(Agent agent, std::size_t chunk, std::size_t threads) const {
    return {agent, space_.chunk_bytes[chunk], has_threads(agent) ? space_.threads[threads] : space_.threads.back()};
  }

  /// Tries the places above `from`, then those below it, each direction until it is hopeless.
  template <typename Try>
  void walk(int from, int end, Try&& attempt) {
    for (const int step : {1, -1})
      for (int at = from + step, lost = 0; at >= 0 && at < end && lost < patience; at += step)
        lost = attempt(at) > hopeless * best_.seconds ? lost + 1 : 0;
  }

  double time(const AgentPlan& plan) {
    const auto key = std::tuple(plan.agent, plan.chunk_bytes, plan.threads);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const double taken = seconds_of(plan);
    known_.emplace(key, taken);
    tried_.push_back({plan, taken});
    return taken;
  }

  [[nodiscard]] double seconds_of(const AgentPlan& plan) const {
    double taken = 0;
    try {
      taken = seconds_(plan);
    } catch (const CannotLaunchError&) {
      taken = std::numeric_limits<double>::infinity();  // it is not the best
    }
    if (!(taken >= 0))
      throw UsageError("'" + plan.to_string() + "' is said to take " + std::to_string(taken) +
                       " s; say how long it takes, or infinity if it cannot be used");
    return taken;
  }

  const TuningSpace& space_;
  const std::function<double(const AgentPlan&)>& seconds_;
  std::map<std::tuple<Agent, std::uint64_t, int>, double> known_;
  std::vector<Tried> tried_;
  struct Best {
    double seconds = 0;
    int chunk = 0, threads = 0;  // indices into the space
  };
  Best best_;  // of the agent at hand
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
