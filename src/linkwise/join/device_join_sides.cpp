#include "linkwise/join/device_join_sides.hpp"

#include <limits>
#include <string>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {

DeviceJoinSides::DeviceJoinSides(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input,
                                 bool numbers_rows, KeysAs keys_as)
    : runtime_(runtime), plan_(plan), input_(input) {
  check_join(runtime.machine(), plan, input.left.key_type, input.right.key_type);
  left_.columns = &input.left;
  right_.columns = &input.right;
  for (const DeviceSide* side : {&left_, &right_})
    if (side->columns->parts.size() != plan.sort.gpus.size())
      throw UsageError("there are " + std::to_string(side->columns->parts.size()) + " parts of a side for " +
                       std::to_string(plan.sort.gpus.size()) + " GPUs; give one for each");
  for (std::size_t g = 0; g < plan.sort.gpus.size(); ++g) {
    const Place place = Place::gpu(plan.sort.gpus[g]);
    streams_.push_back(runtime.stream(place, "compute"));
    for (const DeviceSide* side : {&left_, &right_}) {
      callers_.push_back(runtime.foreign_stream(place, side->columns->parts[g].stream));
      runtime.wait(streams_[g], runtime.record(callers_.back()));
    }
  }
  for (DeviceSide* side : {&left_, &right_}) take(*side, numbers_rows, keys_as);
}

IntegerType DeviceJoinSides::integers_of(bool left) const {
  const DeviceSide& side = left ? left_ : right_;
  return {static_cast<int>(side.type.value_bytes()), left ? input_.left_values_signed : input_.right_values_signed};
}

SampledRelation DeviceJoinSides::sampled(const DeviceSide& side) const {
  SampledRelation relation{{}, side.rows};
  for (std::size_t g = 0; g < streams_.size(); ++g)
    relation.sources.push_back({streams_[g], side.records[g].keys, 0, side.first_rows[g]});
  return relation;
}

bool DeviceJoinSides::suits_msd_sort(const DeviceSide& side, std::size_t parts) const {
  return linkwise::suits_msd_sort(runtime_, side.key_type, sampled(side), side.type, parts);
}

JoinInput DeviceJoinSides::shape() const {
  JoinInput shape;
  shape.kind = input_.kind;
  shape.left = {input_.left.key_type, left_.rows, nullptr, left_.type.value};
  shape.right = {input_.right.key_type, right_.rows, nullptr, right_.type.value};
  return shape;
}

// The caller's streams need not wait: the host blocks here, so work that it queues on them later runs after the join.
std::vector<SortedPart> DeviceJoinSides::handed_over(std::vector<RowsOnGpu> made) {
  std::vector<SortedPart> parts;
  for (std::size_t g = 0; g < made.size(); ++g)
    parts.push_back({plan_.sort.gpus[g], made[g].count, std::move(made[g].memory), made[g].left, made[g].right,
                     runtime_.share(runtime_.record(streams_[g]))});
  runtime_.synchronize();
  return parts;
}

// Encodes the keys where that is needed, and makes row numbers if they are wanted and the side has no values.
void DeviceJoinSides::take(DeviceSide& side, bool numbers_rows, KeysAs keys_as) {
  runtime_.set_phase("encode");
  const DeviceColumns& columns = *side.columns;
  numbers_rows = numbers_rows && columns.value_width == ValueWidth::none;
  side.type = {key_width(columns.key_type),
               numbers_rows ? to_value_width(input_.row_number_bytes) : columns.value_width};
  const bool encodes =
      !is_own_code(columns.key_type, /*descending=*/false) && (keys_as == KeysAs::codes || is_narrow(columns.key_type));
  side.key_type = encodes ? code_type(side.type.key) : columns.key_type;
  for (std::size_t g = 0; g < streams_.size(); ++g) {
    const DevicePart& part = columns.parts[g];
    const auto view = [&](void* data, std::uint64_t bytes) {
      return MemoryView{streams_[g].place, static_cast<std::byte*>(data), bytes, 0, false};
    };
    const MemoryView keys = view(part.keys, part.count * static_cast<std::uint64_t>(native_bytes(columns.key_type)));
    const auto own = [&](std::uint64_t bytes, const char* label) {
      return side.owned.emplace_back(runtime_.allocate(keys.place, bytes, label)).view();
    };
    Records records{side.type, part.count, keys, {}};
    const std::uint64_t value_bytes = part.count * side.type.value_bytes();
    if (numbers_rows) {
      records.values = own(value_bytes, "row numbers");
      iota(runtime_, streams_[g], side.type.value, records.values, side.rows);
    } else {
      records.values = view(part.values, value_bytes);
    }
    if (encodes) {
      records.keys = own(part.count * side.type.key_bytes(), "codes");
      encode(runtime_, streams_[g], columns.key_type, /*descending=*/false, keys, records.keys);
      unify_floats(runtime_, streams_[g], columns.key_type, records.keys);
    }
    side.records.push_back(records);
    side.first_rows.push_back(side.rows);
    side.rows += part.count;
  }
  if (numbers_rows && side.type.value == ValueWidth::v4 && side.rows > std::numeric_limits<std::uint32_t>::max())
    throw UsageError("rows of so large a side are numbered with 8 bytes");
}

}  // namespace linkwise
