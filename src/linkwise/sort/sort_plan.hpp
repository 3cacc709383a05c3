// What a sort is to do: a small printable struct that plan/ computes and a user may pin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/machine/paths.hpp"

namespace linkwise {

enum class SortStrategy { radix, p2p_merge, het, cpu };
std::string to_string(SortStrategy strategy);
/// @throws UsageError naming the strategies there are.
SortStrategy sort_strategy_from(const std::string& name);

/// How the radix exchange moves records: the partition kernel stores straight into the peers, or it
/// partitions locally and copy engines carry the parts.
enum class Exchange { fused, copies };
std::string to_string(Exchange exchange);

/// What a radix sort chooses its splitters from: samples, or histograms of the leading bits (join25 §3.1.2); or
/// whether it partitions by these bits, in steps, and exchanges whole buckets, as join25 does
/// (strategies/bucket_radix_sort.hpp).
enum class Splitting { samples, msb, buckets };

/// How the host sorts by itself: primitives/host/parallel_sort.hpp, and in place, but not stably, paradis.hpp.
enum class CpuAlgorithm { radix, comparison, paradis };
std::string to_string(CpuAlgorithm algorithm);

struct SortPlan {
  SortStrategy strategy = SortStrategy::radix;
  std::vector<int> gpus{0};  ///< in the order in which they hold the result
  Exchange exchange = Exchange::copies;
  std::uint64_t chunkset_records = 0;        ///< records sorted at once over all GPUs; 0: all
  bool merge_on_gpus = true;                 ///< the runs of an out-of-core sort; otherwise the host merges them
  Splitting splitting = Splitting::samples;  ///< of the radix strategy
  std::uint64_t samples = 1 << 20;           ///< in all
  double slack = 0.02;                       ///< room beyond an equal share, for parts that are not quite equal
  bool streamed = true;  ///< radix on host data: exchange while pieces arrive, copy out while sorting
  int het_buffers = 2;   ///< of each GPU when het: 2 or 3 (sort22 §5.3)
  CpuAlgorithm cpu_algorithm = CpuAlgorithm::radix;
  bool eager_merge = false;  ///< het: merge each group's runs while later groups are sorted
  /// That arrive at a GPU at once when streamed; where there is less in all, it is one piece and one bucket.
  std::uint64_t piece_bytes = 32 << 20;
  int buckets = 16;  ///< of each GPU when streamed, at most: one is sorted while another leaves
  /// Ways over other GPUs, for host traffic and between GPUs; where there is none, copies go straight.
  std::vector<Path> paths;
  std::uint64_t relay_bytes = 8 << 20;  ///< of a chunk on such a way
  int device_buckets = 0;  ///< of each GPU, for data on the GPUs: the more, the less spare memory. 0: as few as fit

  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SortPlan&, const SortPlan&) = default;
};

/// Whether whole buckets are exchanged.
inline bool is_in_buckets(const SortPlan& plan) {
  return plan.strategy == SortStrategy::radix && plan.splitting == Splitting::buckets;
}

/// visit(name, member) for every field: Python binds them, and callers pin them, by these names.
template <typename Visit>
void visit_fields(const SortPlan*, const Visit& visit) {
  visit("strategy", &SortPlan::strategy);
  visit("gpus", &SortPlan::gpus);
  visit("exchange", &SortPlan::exchange);
  visit("chunkset_records", &SortPlan::chunkset_records);
  visit("merge_on_gpus", &SortPlan::merge_on_gpus);
  visit("splitting", &SortPlan::splitting);
  visit("samples", &SortPlan::samples);
  visit("slack", &SortPlan::slack);
  visit("streamed", &SortPlan::streamed);
  visit("het_buffers", &SortPlan::het_buffers);
  visit("cpu_algorithm", &SortPlan::cpu_algorithm);
  visit("eager_merge", &SortPlan::eager_merge);
  visit("piece_bytes", &SortPlan::piece_bytes);
  visit("buckets", &SortPlan::buckets);
  visit("paths", &SortPlan::paths);
  visit("relay_bytes", &SortPlan::relay_bytes);
  visit("device_buckets", &SortPlan::device_buckets);
}

/// @throws UsageError if the plan names no GPU, one twice, or one that the machine does not have.
void check_gpus(const Machine& machine, const SortPlan& plan);

}  // namespace linkwise
