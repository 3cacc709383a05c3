#include "linkwise/sort/sort_plan.hpp"

#include <algorithm>

#include "linkwise/error.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise {

std::string to_string(SortStrategy strategy) {
  switch (strategy) {
    case SortStrategy::radix: return "radix";
    case SortStrategy::p2p_merge: return "p2p_merge";
    case SortStrategy::het: return "het";
    case SortStrategy::cpu: return "cpu";
  }
  return "";
}

SortStrategy sort_strategy_from(const std::string& name) {
  for (const SortStrategy strategy :
       {SortStrategy::radix, SortStrategy::p2p_merge, SortStrategy::het, SortStrategy::cpu})
    if (to_string(strategy) == name) return strategy;
  throw UsageError("there is no sort strategy '" + name + "'; choose radix, p2p_merge, het, cpu or auto");
}

std::string to_string(CpuAlgorithm algorithm) {
  switch (algorithm) {
    case CpuAlgorithm::radix: return "radix";
    case CpuAlgorithm::comparison: return "comparison";
    case CpuAlgorithm::paradis: return "paradis";
  }
  return "";
}

std::string to_string(Exchange exchange) { return exchange == Exchange::fused ? "fused" : "copies"; }

void check_gpus(const Machine& machine, const SortPlan& plan) {
  if (plan.gpus.empty()) throw UsageError("a sort needs at least one GPU");
  if (plan.gpus.size() > max_destinations)
    throw UsageError("at most " + std::to_string(max_destinations) + " GPUs work together, not " +
                     std::to_string(plan.gpus.size()) + "; name fewer");
  for (const Path& path : plan.paths) {
    for (const int gpu : path.over)
      if (std::ranges::count(plan.gpus, gpu) != 1)
        throw UsageError("paths: " + to_string(path) + " goes over GPU " + std::to_string(gpu) +
                         ", which the plan does not use");
    for (const Place end : {path.from, path.to})
      if (end.is_gpu() ? std::ranges::count(plan.gpus, end.index) != 1 : end.index >= machine.num_host_memories())
        throw UsageError("paths: " + to_string(path) + " has an end at " + end.name() +
                         ", which the plan does not use");
    if (path.from.is_gpu() == path.to.is_gpu() && (path.from == path.to || !path.from.is_gpu()))
      throw UsageError("paths: " + to_string(path) + " leads nowhere that a sort moves data to");
  }
  for (const int gpu : plan.gpus) {
    if (gpu < 0 || gpu >= machine.num_gpus())
      throw UsageError("there is no GPU " + std::to_string(gpu) + "; machine '" + machine.name + "' has " +
                       std::to_string(machine.num_gpus()) + " GPUs, from 0");
    if (std::ranges::count(plan.gpus, gpu) > 1) throw UsageError("GPU " + std::to_string(gpu) + " is named twice");
  }
}

namespace {

// Describes which GPUs carry the host traffic, unless each carries its own, and the relays between GPUs.
std::string ways_of(const SortPlan& plan) {
  std::string carriers, relays;
  for (const int gpu : plan.gpus) {
    double in = 1, out = 1;  // fraction of its own traffic that it carries itself
    bool helps = false;
    for (const Path& path : plan.paths) {
      if (path.to == Place::gpu(gpu) && !path.from.is_gpu()) in -= path.fraction;
      if (path.from == Place::gpu(gpu) && !path.to.is_gpu()) out -= path.fraction;
      helps |= path.from.is_gpu() != path.to.is_gpu() && std::ranges::count(path.over, gpu) > 0;
    }
    constexpr double something = 1e-3;
    if (helps || in > something || out > something) carriers += (carriers.empty() ? "" : ",") + std::to_string(gpu);
  }
  bool host = false;
  for (const Path& path : plan.paths) {
    if (path.from.is_gpu() && path.to.is_gpu()) relays += (relays.empty() ? "" : " ") + to_string(path);
    else host = true;
  }
  return (host ? ", host traffic carried by (" + carriers + ")" : "") + (relays.empty() ? "" : ", relays " + relays);
}

}  // namespace

std::string SortPlan::to_string() const {
  if (strategy == SortStrategy::cpu) return "cpu, " + linkwise::to_string(cpu_algorithm) + " sort";
  std::string text = linkwise::to_string(strategy) + " on GPUs (";
  for (std::size_t g = 0; g < gpus.size(); ++g) text += (g == 0 ? "" : ",") + std::to_string(gpus[g]);
  text += ")";
  if (strategy == SortStrategy::radix && streamed) text += ", streamed";
  else if (strategy == SortStrategy::radix && gpus.size() > 1)
    text += exchange == Exchange::fused ? ", exchange fused" : ", exchange by copies";
  if (strategy == SortStrategy::radix && splitting == Splitting::msb) text += ", cut by MSB histograms";
  if (strategy == SortStrategy::het)
    text += ", " + std::to_string(het_buffers) + " buffers each" + (eager_merge ? ", merged eagerly" : "");
  text += ways_of(*this);
  if (chunkset_records > 0)
    text += ", " + std::to_string(chunkset_records) + " records at once, merged on the " +
            (merge_on_gpus && strategy != SortStrategy::het ? "GPUs" : "host");
  return text;
}

}  // namespace linkwise
