#include "linkwise/sort/sort_plan.hpp"

#include <algorithm>

#include "linkwise/error.hpp"

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

std::string to_string(Exchange exchange) { return exchange == Exchange::fused ? "fused" : "copies"; }

void check_gpus(const Machine& machine, const SortPlan& plan) {
  if (plan.gpus.empty()) throw UsageError("a sort needs at least one GPU");
  for (const int gpu : plan.gpus) {
    if (gpu < 0 || gpu >= machine.num_gpus())
      throw UsageError("there is no GPU " + std::to_string(gpu) + "; machine '" + machine.name + "' has " +
                       std::to_string(machine.num_gpus()) + " GPUs, from 0");
    if (std::ranges::count(plan.gpus, gpu) > 1) throw UsageError("GPU " + std::to_string(gpu) + " is named twice");
  }
}

std::string SortPlan::to_string() const {
  if (strategy == SortStrategy::cpu)
    return cpu_algorithm == CpuAlgorithm::radix ? "cpu, radix sort" : "cpu, comparison sort";
  std::string text = linkwise::to_string(strategy) + " on GPUs (";
  for (std::size_t g = 0; g < gpus.size(); ++g) text += (g == 0 ? "" : ",") + std::to_string(gpus[g]);
  text += ")";
  if (strategy == SortStrategy::radix && streamed) text += ", streamed";
  else if (strategy == SortStrategy::radix && gpus.size() > 1)
    text += exchange == Exchange::fused ? ", exchange fused" : ", exchange by copies";
  if (strategy == SortStrategy::het)
    text += ", " + std::to_string(het_buffers) + " buffers each" + (eager_merge ? ", merged eagerly" : "");
  if (chunkset_records > 0)
    text += ", " + std::to_string(chunkset_records) + " records at once, merged on the " +
            (merge_on_gpus && strategy != SortStrategy::het ? "GPUs" : "host");
  return text;
}

}  // namespace linkwise
