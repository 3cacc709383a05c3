#include "linkwise/transfer/proactive/tuned_plans.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/error.hpp"

namespace linkwise::proactive {
namespace {

struct Kept {
  std::string kernel, line;
};

std::vector<Kept> kept_in(const std::filesystem::path& file) {
  std::vector<Kept> all;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    // The name is what stands behind the third blank.
    std::size_t name = 0;
    for (int blanks = 0; blanks < 3 && name != std::string::npos; ++blanks) name = line.find(' ', name + 1);
    if (name != std::string::npos) all.push_back({line.substr(name + 1), line});
  }
  return all;
}

void check_name(const std::string& kernel) {
  if (kernel.empty() || kernel.find('\n') != std::string::npos)
    throw UsageError("a plan is kept for a kernel with a name of one line");
}

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return cache;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache";
  return {};  // no fallback to a world-writable directory
}

}  // namespace

std::filesystem::path TunedPlans::usual_file() {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  std::string machine = host.data() + std::to_string(cuda_driver_version());
  for (const CudaGpu& gpu : cuda_gpus()) machine += gpu.name + gpu.pci_bus_id;
  std::uint64_t digest = 14695981039346656037U;  // FNV-1a
  for (const char letter : machine) digest = (digest ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  std::array<char, 17> hexadecimal{};
  (void)std::snprintf(hexadecimal.data(), hexadecimal.size(), "%016llx", static_cast<unsigned long long>(digest));
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  return folder / "linkwise" / ("tuned-" + std::string(hexadecimal.data()) + ".txt");
}

std::optional<AgentPlan> TunedPlans::find(const std::string& kernel) const {
  for (const Kept& kept : kept_in(file_)) {
    if (kept.kernel != kernel) continue;
    std::istringstream words(kept.line);
    std::string agent;
    AgentPlan plan;
    if (!(words >> agent >> plan.chunk_bytes >> plan.threads)) return std::nullopt;
    try {
      plan.agent = agent_from(agent);
      check_plan(plan, is_only_simulated(plan.agent));
    } catch (const UsageError&) {
      return std::nullopt;
    }
    return plan;
  }
  return std::nullopt;
}

void TunedPlans::keep(const std::string& kernel, const AgentPlan& plan) const {
  check_name(kernel);
  if (file_.empty()) throw UsageError("cannot keep a plan: neither XDG_CACHE_HOME nor HOME says where");
  std::error_code failed;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), failed);
  // Written to a temporary file first, so that concurrent readers find either the old plans or the new ones.
  std::filesystem::path part = file_;
  part += "." + std::to_string(getpid());
  std::filesystem::remove(part,
                          failed);  // left by a process with the same id, or a link that somebody has put there
  failed.clear();
  std::ofstream lines(part);
  for (const Kept& kept : kept_in(file_))
    if (kept.kernel != kernel) lines << kept.line << '\n';
  lines << proactive::to_string(plan.agent) << ' ' << plan.chunk_bytes << ' ' << plan.threads << ' ' << kernel << '\n';
  lines.close();
  if (lines) std::filesystem::rename(part, file_, failed);
  if (!lines || failed) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw UsageError("cannot keep a plan in " + file_.string() + "; name a file that can be written");
  }
}

AgentPlan tuned_plan(const std::string& kernel, const std::function<double(const AgentPlan&)>& seconds,
                     const TuningSpace& space, const TunedPlans& kept) {
  check_name(kernel);
  if (const std::optional<AgentPlan> plan = kept.find(kernel)) return *plan;
  const AgentPlan best = tune(space, seconds).front().plan;
  try {
    kept.keep(kernel, best);
  } catch (const UsageError& cannot) {  // not fatal for a program, but its user should know
    (void)std::fprintf(stderr, "linkwise: %s, or every run will tune '%s' again\n", cannot.what(), kernel.c_str());
  }
  return best;
}

}  // namespace linkwise::proactive
