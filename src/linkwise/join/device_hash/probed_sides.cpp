#include "linkwise/join/device_hash/probed_sides.hpp"

#include <algorithm>
#include <limits>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

Emissions emissions_of(JoinKind kind, bool left_probes) {
  const Emission of_left = emission_of_left(kind);
  if (left_probes) return {.probe = of_left, .takes_rest = right_emits(kind)};
  return {.probe = right_emits(kind) ? Emission::pairs_or_one : Emission::pairs,
          .writes_probe = !is_filter(kind),
          .takes_rest = of_left != Emission::pairs,
          .rest_has_met = of_left == Emission::one_if_matched};
}

}  // namespace

ProbedSides::ProbedSides(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool wants_rows)
    : DeviceJoinSides(runtime, plan, input, /*numbers_rows=*/false, KeysAs::came),
      router_(runtime, plan.sort.paths, plan.sort.relay_bytes),
      wants_rows_(wants_rows),
      left_probes_(left_.rows > right_.rows),
      build_(left_probes_ ? right_ : left_),
      probe_(left_probes_ ? left_ : right_),
      emissions_(emissions_of(input.kind, left_probes_)),
      sums_(!wants_rows && sums_values(shape())) {}

HashParts::Input ProbedSides::input_of(const DeviceSide& side) const {
  HashParts::Input input{&side, ValueWidth::none, {4, false}};
  const bool is_left = &side == &left_;
  if (sums_ || (wants_rows_ && side.columns->value_width != ValueWidth::none)) {
    input.value = side.type.value;
    input.value_type = integers_of(is_left);
  } else if (wants_rows_) {
    const bool is_short = side.rows <= std::numeric_limits<std::uint32_t>::max();
    input.value = is_short ? ValueWidth::v4 : ValueWidth::v8;
    input.value_type = {is_short ? 4 : 8, false};
  }
  return input;
}

void ProbedSides::check_row_numbers() const {
  for (const DeviceSide* side : {&left_, &right_})
    if (wants_rows_ && shown_bytes(*side) < 8 && side->columns->value_width == ValueWidth::none &&
        side->rows > std::numeric_limits<std::uint32_t>::max())
      throw UsageError("rows of so large a side are numbered with 8 bytes");
}

HashLayout ProbedSides::layout() const {
  const std::uint64_t block_bytes = std::max(runtime_.kernels().block_memory_bytes(), least_hash_block_bytes);
  return layout_hash_join({{build_.type.key, input_of(build_).value},
                           build_.rows,
                           probe_.rows,
                           emissions_.takes_rest,
                           input_.hash_table_rows},
                          streams_.size(), block_bytes);
}

JoinToPrice ProbedSides::to_price() const {
  const auto shown = [&](const DeviceSide& side) { return static_cast<std::uint64_t>(shown_bytes(side)); };
  JoinToPrice join{build_.type.key, build_.rows, probe_.rows, streams_.size(), 0, 0, input_.verify};
  join.carried_bytes = static_cast<std::uint64_t>(input_of(probe_).value);
  if (writes()) join.written_bytes = is_filter(input_.kind) ? shown(left_) : shown(left_) + shown(right_);
  return join;
}

void ProbedSides::throw_changed(const std::string& what) {
  throw CorruptDataError(what +
                         " (the checksums differ); check the GPUs' memory and the links between them and run "
                         "again");
}

MemoryView ProbedSides::allocate(std::size_t gpu, std::uint64_t bytes) {
  return memory_.emplace_back(runtime_.allocate(streams_[gpu].place, bytes, "hash join")).view();
}

std::uint64_t ProbedSides::probed_rows(const MatchTotals& found, std::uint64_t probing) const {
  if (!emissions_.writes_probe) return 0;
  return rows_of_task(emissions_.probe, probing, found.matches, found.matched_rows);
}

RowsOnGpu ProbedSides::room_for(std::size_t gpu, std::uint64_t rows) {
  return {runtime_, streams_[gpu].place, rows, static_cast<std::uint64_t>(shown_bytes(left_)),
          is_filter(input_.kind) ? 0 : static_cast<std::uint64_t>(shown_bytes(right_))};
}

std::pair<HashColumn, HashColumn> ProbedSides::columns_in(const RowsOnGpu& made) const {
  const HashColumn of_left{made.left, shown_bytes(left_)}, of_right{made.right, shown_bytes(right_)};
  return left_probes_ ? std::pair{of_left, of_right} : std::pair{of_right, of_left};
}

JoinTotals ProbedSides::totals_of(const std::vector<MatchTotals>& found, std::uint64_t rows) const {
  JoinTotals totals;
  totals.rows = rows;
  for (const MatchTotals& of_gpu : found) {
    totals.left_sum += left_probes_ ? of_gpu.probe_sum : of_gpu.build_sum;
    totals.right_sum += left_probes_ ? of_gpu.build_sum : of_gpu.probe_sum;
  }
  return totals;
}

int ProbedSides::shown_bytes(const DeviceSide& side) const {
  return side.columns->value_width == ValueWidth::none ? input_.row_number_bytes
                                                       : static_cast<int>(side.type.value_bytes());
}

}  // namespace linkwise
