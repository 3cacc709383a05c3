#include "linkwise/sort/sort_plan.hpp"

#include "linkwise/error.hpp"

namespace linkwise {

std::string to_string(SortStrategy strategy) { return strategy == SortStrategy::radix ? "radix" : "p2p_merge"; }

SortStrategy sort_strategy_from(const std::string& name) {
  if (name == "radix") return SortStrategy::radix;
  if (name == "p2p_merge") return SortStrategy::p2p_merge;
  throw UsageError("there is no sort strategy '" + name + "'; choose radix or p2p_merge, or auto");
}

std::string to_string(Exchange exchange) { return exchange == Exchange::fused ? "fused" : "copies"; }

std::string SortPlan::to_string() const {
  std::string text = linkwise::to_string(strategy) + " on GPUs (";
  for (std::size_t g = 0; g < gpus.size(); ++g) text += (g == 0 ? "" : ",") + std::to_string(gpus[g]);
  text += ")";
  if (strategy == SortStrategy::radix && streamed) text += ", streamed";
  else if (strategy == SortStrategy::radix && gpus.size() > 1) text += ", exchange by " + linkwise::to_string(exchange);
  if (chunkset_records > 0) text += ", " + std::to_string(chunkset_records) + " records at once";
  return text;
}

}  // namespace linkwise
