#include "linkwise/device/virtual/simulate.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr const char* too_long =
    "this would take more than three weeks on the described machine; check its rates and links, or plan for less";

class Simulation {
 public:
  Simulation(std::span<const Resource> resources, std::span<const Task> tasks, std::vector<int> engine_slots)
      : resources_(resources),
        tasks_(tasks),
        free_slots_(std::move(engine_slots)),
        queues_(free_slots_.size()),
        waiting_for_(tasks.size(), 0),
        successors_(tasks.size()),
        intervals_(tasks.size()) {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      waiting_for_[t] = static_cast<int>(tasks[t].after.size());
      for (const int before : tasks[t].after) successors_[before].push_back(static_cast<int>(t));
    }
  }

  std::vector<Interval> run() {
    for (std::size_t t = 0; t < tasks_.size(); ++t)
      if (waiting_for_[t] == 0) become_ready(static_cast<int>(t));
    while (true) {
      if (rates_are_stale_) share();
      const std::int64_t next = next_event();
      if (next == never) return std::move(intervals_);
      advance_to(next);
    }
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  static constexpr double longest_ps = 2e18;  // 23 days; the clock overflows after 106
  struct Flow {
    int task;
    double left;
    double rate;
  };

  void become_ready(int t) {
    const int engine = tasks_[t].engine;
    if (engine < 0) return start(t);
    queues_[engine].insert(t);
    serve(engine);
  }

  void serve(int engine) {
    while (free_slots_[engine] > 0 && !queues_[engine].empty()) {
      const int t = *queues_[engine].begin();
      queues_[engine].erase(queues_[engine].begin());
      --free_slots_[engine];
      start(t);
    }
  }

  void start(int t) {
    intervals_[t].start_ps = now_;
    timers_.emplace(now_ + tasks_[t].fixed_ps, t);
  }

  void finish(int t) {
    intervals_[t].end_ps = now_;
    if (tasks_[t].engine >= 0) {
      ++free_slots_[tasks_[t].engine];
      serve(tasks_[t].engine);
    }
    for (const int next : successors_[t])
      if (--waiting_for_[next] == 0) become_ready(next);
  }

  void share() {
    std::vector<const std::vector<Use>*> uses;
    uses.reserve(flows_.size());
    for (const Flow& flow : flows_) uses.push_back(&tasks_[flow.task].uses);
    const std::vector<double> rates = fair_rates(resources_, uses);
    for (std::size_t f = 0; f < flows_.size(); ++f) flows_[f].rate = rates[f];
    rates_are_stale_ = false;
  }

  [[nodiscard]] std::int64_t next_event() const {
    std::int64_t next = timers_.empty() ? never : timers_.top().first;
    for (const Flow& flow : flows_) {
      const double ps = std::ceil(flow.left / flow.rate * 1000.0);
      if (!(ps < longest_ps)) throw UsageError(too_long);
      next = std::min(next, now_ + static_cast<std::int64_t>(ps));
    }
    return next;
  }

  void advance_to(std::int64_t next) {
    if (static_cast<double>(next) > 2 * longest_ps) throw UsageError(too_long);
    const double elapsed_ns = static_cast<double>(next - now_) * 1e-3;
    now_ = next;
    std::vector<int> done;
    std::erase_if(flows_, [&](Flow& flow) {
      flow.left -= flow.rate * elapsed_ns;
      // Less than half a picosecond of work left is a rounding error of the clock.
      if (flow.left > flow.rate * 0.5e-3) return false;
      done.push_back(flow.task);
      return true;
    });
    rates_are_stale_ |= !done.empty();
    while (!timers_.empty() && timers_.top().first == now_) {
      const int t = timers_.top().second;
      timers_.pop();
      if (tasks_[t].work <= 0 || tasks_[t].uses.empty()) {
        done.push_back(t);
      } else {
        flows_.push_back({t, tasks_[t].work, 0});
        rates_are_stale_ = true;
      }
    }
    for (const int t : done) finish(t);
  }

  std::span<const Resource> resources_;
  std::span<const Task> tasks_;
  std::vector<int> free_slots_;
  std::vector<std::set<int>> queues_;
  std::vector<int> waiting_for_;
  std::vector<std::vector<int>> successors_;
  std::vector<Interval> intervals_;
  std::vector<Flow> flows_;
  std::priority_queue<std::pair<std::int64_t, int>, std::vector<std::pair<std::int64_t, int>>, std::greater<>> timers_;
  std::int64_t now_ = 0;
  bool rates_are_stale_ = false;
};

}  // namespace

std::vector<Interval> simulate(std::span<const Resource> resources, std::span<const Task> tasks,
                               std::vector<int> engine_slots) {
  return Simulation(resources, tasks, std::move(engine_slots)).run();
}

}  // namespace linkwise
