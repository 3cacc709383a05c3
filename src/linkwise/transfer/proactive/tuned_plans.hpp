// Tuned plans, kept on disk for the next run: each is for one kernel on one machine (proact21 §III-A).
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
  /// This machine's file, in the folder where `linkwise probe` keeps the profile. Its name depends on the GPUs, the
  /// driver and the host's name.
  static std::filesystem::path usual_file();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  /// The plan that was kept for a kernel; nothing if there is none, or if it is invalid.
  [[nodiscard]] std::optional<AgentPlan> find(const std::string& kernel) const;
  /// Keeps a plan for a kernel, and replaces an earlier one. @throws UsageError for a name that is empty or has
  /// several lines, or a file that cannot be written.
  void keep(const std::string& kernel, const AgentPlan& plan) const;

 private:
  std::filesystem::path file_;
};

/// The plan that was kept for a kernel; if there is none, the best plan that `tune` finds, which is then kept.
/// `kernel`: a name that includes all else that the best plan depends on, such as the size of the region and the
/// GPUs.
/// If the file cannot be written, prints a line to stderr, and the next run tunes again.
/// @throws UsageError for a name that is empty or has several lines, and what `seconds` throws.
AgentPlan tuned_plan(const std::string& kernel, const std::function<double(const AgentPlan&)>& seconds,
                     const TuningSpace& space = {}, const TunedPlans& kept = TunedPlans());

}  // namespace linkwise::proactive
