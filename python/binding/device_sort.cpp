// Sorts and joins device arrays, of other libraries and of Linkwise.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "linkwise/join/device_join.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using AnyArray = nb::ndarray<nb::ndim<1>>;
using Streams = std::vector<std::optional<std::int64_t>>;

// The columns on the plan's GPUs, validated.
DeviceColumns columns_of(const Runtime& runtime, const SortPlan& plan, const std::vector<AnyArray>& keys,
                         const std::vector<AnyArray>& values, const Streams& streams, bool donated) {
  check_gpus(runtime.machine(), plan);
  if (keys.size() != plan.gpus.size() || streams.size() != keys.size() ||
      (!values.empty() && values.size() != keys.size()))
    throw UsageError("there must be an array of keys, and one of values or none, for each GPU");
  DeviceColumns columns{key_type_of(keys.front().dtype()), ValueWidth::none, {}, donated};
  if (!values.empty()) columns.value_width = to_value_width(static_cast<int>(values.front().itemsize()));
  const auto check = [&](const AnyArray& array, const nb::dlpack::dtype& type, std::size_t g) {
    if (array.dtype() != type) throw UsageError("the arrays differ in type");
    require_array_on(array, runtime, plan.gpus[g]);
  };
  for (std::size_t g = 0; g < keys.size(); ++g) {
    check(keys[g], keys.front().dtype(), g);
    DevicePart part{keys[g].size(), keys[g].data(), nullptr, nullptr};
    if (!values.empty()) {
      check(values[g], values.front().dtype(), g);
      if (values[g].size() != keys[g].size()) throw UsageError("there are not as many values as keys");
      part.values = values[g].data();
    }
    if (const std::optional<std::int64_t>& stream = streams[g]) part.stream = native_stream(*stream);
    columns.parts.push_back(part);
  }
  return columns;
}

std::shared_ptr<PartMemory> memory_of(const nb::object& runtime, SortedPart part,
                                      const std::optional<std::int64_t>& caller) {
  std::vector<void*> streams;
  if (caller.has_value()) streams.push_back(native_stream(*caller));
  return std::make_shared<PartMemory>(runtime, nb::cast<Runtime&>(runtime), part.gpu, std::move(part.memory),
                                      std::move(part.ready), std::move(streams));
}

// Hands the input arrays back to a caller whose streams are not known.
void hand_back(Runtime& runtime, const DeviceColumns& columns) {
  for (const DevicePart& part : columns.parts)
    for (const auto& [data, width] :
         {std::pair{part.keys, native_bytes(columns.key_type)}, {part.values, static_cast<int>(columns.value_width)}})
      if (data != nullptr)
        runtime.host_writes(host_view(data, 0, part.count * static_cast<std::uint64_t>(width), /*pageable=*/false),
                            "hands arrays back to the caller");
}

nb::any sort_arrays(const nb::object& runtime_object, const SortPlan& plan, const std::vector<AnyArray>& keys,
                    const std::vector<AnyArray>& values, const Streams& streams, bool donated,
                    const SortOptions& options, const nb::object& make) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const DeviceColumns columns = columns_of(runtime, plan, keys, values, streams, donated);
  nb::any result;
  const auto take = [&](std::vector<SortedPart> sorted) {
    const nb::gil_scoped_acquire acquire;
    nb::list pairs;
    for (std::size_t g = 0; g < sorted.size(); ++g) {
      const MemoryView key_view = sorted[g].keys, value_view = sorted[g].values;
      const auto memory = memory_of(runtime_object, std::move(sorted[g]), streams[g]);
      const DeviceArray sorted_keys{memory, key_view, keys.front().dtype()};
      if (values.empty()) pairs.append(nb::make_tuple(sorted_keys, nb::none()));
      else pairs.append(nb::make_tuple(sorted_keys, DeviceArray{memory, value_view, values.front().dtype()}));
    }
    result = nb::borrow<nb::any>(make.is_none() ? nb::object(pairs) : make(pairs));
  };
  const nb::gil_scoped_release release;
  run_or_abandon(runtime, [&] {
    sort_device(runtime, plan, columns, options, take);
    const bool anyone_unknown = std::ranges::any_of(streams, [](const auto& stream) { return !stream; });
    if (!anyone_unknown) return;
    runtime.synchronize();
    hand_back(runtime, columns);
  });
  return result;
}

struct ArraysOfSide {
  std::vector<AnyArray> keys, values;
  Streams streams;
};

DeviceJoinWay way_from(const std::string& name) {
  if (name == "auto") return DeviceJoinWay::chosen;
  if (name == "sort_merge") return DeviceJoinWay::sort_merge;
  if (name == "hash") return DeviceJoinWay::hash;
  if (name == "unpartitioned") return DeviceJoinWay::unpartitioned;
  if (name == "direct") return DeviceJoinWay::direct;
  throw UsageError("way is '" + name + "'; it is auto, sort_merge, hash, unpartitioned or direct");
}

DeviceJoinInput join_input_of(const Runtime& runtime, const JoinPlan& plan, const ArraysOfSide& left,
                              const ArraysOfSide& right, const std::string& how, bool verify, const std::string& way,
                              std::uint32_t table_rows) {
  DeviceJoinInput input;
  input.left = columns_of(runtime, plan.sort, left.keys, left.values, left.streams, false);
  input.right = columns_of(runtime, plan.sort, right.keys, right.values, right.streams, false);
  const auto is_signed = [](const ArraysOfSide& side) {
    return !side.values.empty() &&
           side.values.front().dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  };
  input.left_values_signed = is_signed(left);
  input.right_values_signed = is_signed(right);
  input.kind = join_kind_from(how);
  input.verify = verify;
  input.way = way_from(way);
  input.hash_table_rows = table_rows;
  return input;
}

JoinTotals totals_of(Runtime& runtime, const JoinPlan& plan, const ArraysOfSide& left, const ArraysOfSide& right,
                     const std::string& how, bool verify, const std::string& way, std::uint32_t table_rows) {
  const DeviceJoinInput input = join_input_of(runtime, plan, left, right, how, verify, way, table_rows);
  const nb::gil_scoped_release release;
  return join_device_totals(runtime, plan, input);
}

// For each GPU a pair of arrays, of its rows' values or row numbers on the left and on the right side; the latter is
// None for semi and anti joins.
std::vector<nb::tuple> rows_of(const nb::object& runtime_object, const JoinPlan& plan, const ArraysOfSide& left,
                               const ArraysOfSide& right, const std::string& how, bool verify, int row_number_bytes,
                               bool any_order, const std::string& way, std::uint32_t table_rows) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  DeviceJoinInput input = join_input_of(runtime, plan, left, right, how, verify, way, table_rows);
  input.any_order = any_order;
  input.row_number_bytes = row_number_bytes;
  std::vector<SortedPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = join_device_rows(runtime, plan, input);
  }
  const auto type_of = [&](const ArraysOfSide& side) {
    if (!side.values.empty()) return side.values.front().dtype();
    return row_number_bytes == 4 ? nb::dtype<std::uint32_t>() : nb::dtype<std::int64_t>();
  };
  std::vector<nb::tuple> results;
  for (std::size_t g = 0; g < parts.size(); ++g) {
    const MemoryView left_view = parts[g].keys, right_view = parts[g].values;
    const auto memory = memory_of(runtime_object, std::move(parts[g]), left.streams[g]);
    const nb::object of_right =
        is_filter(input.kind) ? nb::none() : nb::cast(DeviceArray{memory, right_view, type_of(right)});
    results.push_back(nb::make_tuple(DeviceArray{memory, left_view, type_of(left)}, of_right));
  }
  return results;
}

}  // namespace

void bind_device_sort(nb::module_& m) {
  nb::class_<ArraysOfSide>(m, "ArraysOfSide",
                           "One side of a join: an array of keys for each GPU, and one of values or none.")
      .def(
          "__init__",
          [](ArraysOfSide* self, std::vector<AnyArray> keys, std::vector<AnyArray> values, Streams streams) {
            new (self) ArraysOfSide{std::move(keys), std::move(values), std::move(streams)};
          },
          nb::arg("keys").noconvert(), nb::arg("values").noconvert(), nb::arg("streams"));
  m.def("join_device_totals", &totals_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("left"), nb::arg("right"),
        nb::arg("how") = "inner", nb::arg("verify") = true, nb::arg("way") = "auto", nb::arg("table_rows") = 0,
        "How many rows a join of arrays that lie on the plan's GPUs has and, if both sides have values, their sums.");
  m.def("join_device_rows", &rows_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("left"), nb::arg("right"),
        nb::arg("how") = "inner", nb::arg("verify") = true, nb::arg("row_number_bytes") = 8,
        nb::arg("any_order") = false, nb::arg("way") = "auto", nb::arg("table_rows") = 0,
        "The rows of the join, on the GPUs: for each GPU a pair of arrays, both sides' values, or row numbers for a "
        "side without values; (array, None) for semi and anti joins. In key order, unless any_order is set.");
  m.def("sort_device", &sort_arrays, nb::arg("runtime"), nb::arg("plan"), nb::arg("keys").noconvert(),
        nb::arg("values").noconvert(), nb::arg("streams"), nb::arg("donated"), nb::arg("options"),
        nb::arg("make") = nb::none(),
        "Sorts arrays on the plan's GPUs (NumPy arrays if the machine is simulated). Returns a pair of arrays for "
        "each GPU: keys, and values or None; or what make(pairs) returns, which is called while the GPUs sort. Streams "
        "are the caller's, as in DLPack; None waits until all is done.");
}

}  // namespace linkwise::binding
