// Plans that tuning found, kept for the next run: each belongs to a kernel and a machine (proact21 §III-A).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "linkwise/transfer/proactive/agent.hpp"
#include "linkwise/transfer/proactive/tuner.hpp"

namespace linkwise::proactive {

/// A file of plans, a line for each kernel: agent, bytes of a chunk, threads, and the kernel's name.
class TunedPlans {
 public:
  /// The file need not be there yet.
  explicit TunedPlans(std::filesystem::path file = usual_file()) : file_(std::move(file)) {}
  /// This machine's, in the folder where `linkwise probe` keeps the profile: machines with other GPUs, another driver
  /// or another name have others.
  static std::filesystem::path usual_file();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  /// None where none was kept, or where what was kept is no plan.
  [[nodiscard]] std::optional<AgentPlan> find(const std::string& kernel) const;
  /// Instead of what was kept for the kernel before. @throws UsageError for a name of no or of several lines, or a file
  /// that cannot be written.
  void keep(const std::string& kernel, const AgentPlan& plan) const;

 private:
  std::filesystem::path file_;
};

/// The plan that was kept for a kernel; where there is none, the best of what `tune` tries, which is kept from now on.
/// `kernel`: a name, with what else the best plan depends on, as the size of the region and the GPUs.
/// A file that cannot be written costs a line on stderr, and the next run's time.
/// @throws UsageError for a name of no or of several lines, and what `seconds` throws.
AgentPlan tuned_plan(const std::string& kernel, const std::function<double(const AgentPlan&)>& seconds,
                     const TuningSpace& space = {}, const TunedPlans& kept = TunedPlans());

}  // namespace linkwise::proactive
