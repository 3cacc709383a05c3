#include "linkwise/join/join_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "linkwise/error.hpp"

namespace linkwise {

std::vector<MemoryView> views_of(const JoinOutputs& outputs, const JoinInput& input, std::uint64_t rows) {
  const auto of = [&](const HostColumns& side) { return rows * static_cast<std::uint64_t>(side.value_width); };
  const std::uint64_t key_bytes = rows * static_cast<std::uint64_t>(native_bytes(input.left.key_type));
  std::vector<MemoryView> views;
  for (const auto& [data, bytes] : {std::pair{outputs.keys, key_bytes},
                                    {outputs.left_values, of(input.left)},
                                    {outputs.right_values, of(input.right)}})
    if (data != nullptr) views.push_back(host_view(data, 0, bytes, outputs.pageable));
  return views;
}

std::vector<MemoryView> views_of(const RangeArrays& arrays, const RangeSizes& sizes) {
  std::vector<MemoryView> views;
  for (const auto& [data, count] : {std::pair{arrays.left_first, sizes.keys + 1},
                                    {arrays.right_first, sizes.keys + 1},
                                    {arrays.left_rows, sizes.left_rows},
                                    {arrays.right_rows, sizes.right_rows}})
    views.push_back(host_view(data, 0, count * sizeof *data, /*pageable=*/true));
  return views;
}

JoinCounts expected_counts(const JoinInput& input) {
  const std::uint64_t left = input.left.count, right = input.right.count;
  const std::uint64_t pairs = input.expected_matches.value_or(input.kind == JoinKind::anti ? 0 : std::max(left, right));
  return {pairs, std::min(pairs, left), std::min(pairs, right)};
}

MatchTotals expected_totals(const JoinCounts& counts, bool left_probes, std::uint64_t probes) {
  return {counts.pairs / probes, (left_probes ? counts.left_matched : counts.right_matched) / probes};
}

std::uint64_t join_samples(const JoinPlan& plan) { return std::max<std::uint64_t>(plan.sort.samples / 16, 1); }

std::string JoinPlan::to_string() const {
  std::string text = path == JoinPath::in_core        ? "in core"
                     : path == JoinPath::hybrid_radix ? "partitioned by the host, and hashed"
                     : path == JoinPath::pairwise     ? "sorted, and merged two by two on the GPUs,"
                     : merges_runs                    ? "sorted and merged in host memory"
                                                      : "sorted in host memory";
  text += " on (";
  for (std::size_t g = 0; g < sort.gpus.size(); ++g) text += (g > 0 ? "," : "") + std::to_string(sort.gpus[g]);
  text += ")";
  if (!sort.paths.empty()) text += ", over other GPUs where that is faster";
  if (path == JoinPath::sorted && sort.chunkset_records > 0)
    text += ", " + std::to_string(sort.chunkset_records) + " rows sorted at once";
  return text;
}

JoinCounts& JoinCounts::operator+=(const JoinCounts& other) {
  pairs += other.pairs;
  left_matched += other.left_matched;
  right_matched += other.right_matched;
  left_sum += other.left_sum;
  right_sum += other.right_sum;
  return *this;
}

Emission emission_of_left(JoinKind kind) {
  switch (kind) {
    case JoinKind::left:
    case JoinKind::full: return Emission::pairs_or_one;
    case JoinKind::semi: return Emission::one_if_matched;
    case JoinKind::anti: return Emission::one_if_unmatched;
    case JoinKind::inner:
    case JoinKind::right: break;
  }
  return Emission::pairs;
}

JoinCounts counts_of(bool left_probes, const MatchTotals& forward, const MatchTotals& backward) {
  JoinCounts counts{forward.matches, forward.matched_rows, backward.matched_rows, forward.probe_sum, forward.build_sum};
  if (left_probes) return counts;
  std::swap(counts.left_matched, counts.right_matched);
  std::swap(counts.left_sum, counts.right_sum);
  return counts;
}

bool right_emits(JoinKind kind) { return kind == JoinKind::right || kind == JoinKind::full; }

void check_join(const Machine& machine, const JoinPlan& plan, KeyType left, KeyType right) {
  if (left != right) throw UsageError("the keys of the two sides differ in type; cast one");
  check_gpus(machine, plan.sort);
}

JoinTotals totals_of(JoinKind kind, const JoinCounts& counts, std::uint64_t left_rows, std::uint64_t right_rows) {
  const std::uint64_t left_alone = left_rows - counts.left_matched, right_alone = right_rows - counts.right_matched;
  std::uint64_t rows = counts.pairs;
  switch (kind) {
    case JoinKind::inner: break;
    case JoinKind::left: rows += left_alone; break;
    case JoinKind::right: rows += right_alone; break;
    case JoinKind::full: rows += left_alone + right_alone; break;
    case JoinKind::semi: rows = counts.left_matched; break;
    case JoinKind::anti: rows = left_alone; break;
  }
  return {rows, counts.left_sum, counts.right_sum};
}

bool left_probes(const JoinInput& input) {
  switch (input.kind) {
    case JoinKind::left:
    case JoinKind::semi:
    case JoinKind::anti: return true;
    case JoinKind::right: return false;
    case JoinKind::inner:
    case JoinKind::full: return input.left.count > input.right.count;
  }
  return true;
}

bool sums_values(const JoinInput& input) {
  const auto can = [](ValueWidth width) { return width == ValueWidth::v4 || width == ValueWidth::v8; };
  return can(input.left.value_width) && can(input.right.value_width);
}

}  // namespace linkwise
