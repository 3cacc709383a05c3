// How a sort is to run: a small printable struct that plan/ computes and a user may pin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/machine/paths.hpp"

namespace linkwise {

enum class SortStrategy { radix, p2p_merge, het, cpu };
std::string to_string(SortStrategy strategy);
/// @throws UsageError that lists the strategies.
SortStrategy sort_strategy_from(const std::string& name);

/// How the radix exchange moves records: the partition kernel stores them straight into peer memory, or it partitions
/// locally and copy engines transfer the parts.
enum class Exchange { fused, copies };
std::string to_string(Exchange exchange);

/// How a radix sort divides the keys: at splitters from samples, or from histograms of the leading bits (join25
/// §3.1.2); or by partitioning on these bits in steps and exchanging whole buckets, as join25 does
/// (strategies/bucket_radix_sort.hpp).
enum class Splitting { samples, msb, buckets };

/// How the CPU sorts: radix and comparison (primitives/host/parallel_sort.hpp) are stable, paradis (paradis.hpp) is
/// not, but sorts in place.
enum class CpuAlgorithm { radix, comparison, paradis };
std::string to_string(CpuAlgorithm algorithm);

struct SortPlan {
  SortStrategy strategy = SortStrategy::radix;
  std::vector<int> gpus{0};  ///< in the order in which they hold the result
  Exchange exchange = Exchange::copies;
  std::uint64_t chunkset_records = 0;        ///< records sorted at once on all GPUs together; 0: all
  bool merge_on_gpus = true;                 ///< merge an out-of-core sort's runs on the GPUs, not on the host
  Splitting splitting = Splitting::samples;  ///< radix only
  std::uint64_t samples = 1 << 20;           ///< total number
  double slack = 0.02;                       ///< extra room, as a fraction of an equal share, for unequal parts
  bool streamed = true;  ///< radix on host data: overlap exchange with copies in, sort with copies out
  int het_buffers = 2;   ///< het: buffers per GPU, 2 or 3 (sort22 §5.3)
  CpuAlgorithm cpu_algorithm = CpuAlgorithm::radix;
  bool eager_merge = false;  ///< het: merge each group's runs while later groups are sorted
  /// Streamed: bytes that arrive at a GPU at once. A GPU's share that is smaller is a single piece and bucket.
  std::uint64_t piece_bytes = 32 << 20;
  int buckets = 16;  ///< streamed: most buckets per GPU; one is sorted while another is copied out
  /// Relay paths over other GPUs, for host traffic and between GPUs; copies without one take the direct route.
  std::vector<Path> paths;
  std::uint64_t relay_bytes = 8 << 20;  ///< of a chunk on a relay path
  int device_buckets = 0;  ///< per GPU, for device-resident data: more need less spare memory. 0: as few as fit

  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SortPlan&, const SortPlan&) = default;
};

/// Whether whole buckets are exchanged.
inline bool is_in_buckets(const SortPlan& plan) {
  return plan.strategy == SortStrategy::radix && plan.splitting == Splitting::buckets;
}

/// Calls visit(name, member) for every field. These are the names that the Python binding and its callers use.
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

/// @throws UsageError if the plan names no GPU, one twice, or one that the machine lacks, or has an impossible path.
void check_gpus(const Machine& machine, const SortPlan& plan);

}  // namespace linkwise
