// Joins of host columns on the GPUs.
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "fields.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/join/host_join.hpp"
#include "linkwise/join/out_of_core/merge_path_partitions.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<1>>;

HostColumns columns_of(KeyType type, const Input& keys, const std::optional<Input>& values, int row_number_bytes) {
  if (keys.itemsize() != static_cast<std::size_t>(native_bytes(type)))
    throw UsageError("the keys have not the size of their type");
  HostColumns columns{type, keys.size(), keys.data(), to_value_width(row_number_bytes)};
  columns.keys_pageable = !is_pinned(keys.data());
  if (values) {
    if (values->size() != keys.size()) throw UsageError("there are not as many values as keys");
    columns.value_width = to_value_width(static_cast<int>(values->itemsize()));
    columns.values = values->data();
    columns.values_pageable = !is_pinned(values->data());
  }
  return columns;
}

JoinInput input_of(KeyType type, const Input& left, const Input& right, const std::optional<Input>& left_values,
                   const std::optional<Input>& right_values, int row_number_bytes, const std::string& how, bool verify,
                   bool left_presorted, bool right_presorted) {
  JoinInput input;
  input.left = columns_of(type, left, left_values, row_number_bytes);
  input.right = columns_of(type, right, right_values, row_number_bytes);
  const auto is_signed = [](const std::optional<Input>& values) {
    return values && values->dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  };
  input.left_values_signed = is_signed(left_values);
  input.right_values_signed = is_signed(right_values);
  input.kind = join_kind_from(how);
  input.verify = verify;
  input.left_presorted = left_presorted;
  input.right_presorted = right_presorted;
  return input;
}

JoinTotals totals_of(Runtime& runtime, const JoinPlan& plan, KeyType type, const Input& left, const Input& right,
                     const std::optional<Input>& left_values, const std::optional<Input>& right_values,
                     const std::string& how, bool verify, bool left_presorted, bool right_presorted) {
  const JoinInput input =
      input_of(type, left, right, left_values, right_values, 0, how, verify, left_presorted, right_presorted);
  const nb::gil_scoped_release release;
  return join_totals(runtime, plan, input);
}

std::uint64_t rows_of(Runtime& runtime, const JoinPlan& plan, KeyType type, const Input& left, const Input& right,
                      const std::optional<Input>& left_values, const std::optional<Input>& right_values,
                      int row_number_bytes, const std::string& how, bool verify, const nb::object& make_outputs,
                      bool left_presorted, bool right_presorted) {
  const JoinInput input = input_of(type, left, right, left_values, right_values, row_number_bytes, how, verify,
                                   left_presorted, right_presorted);
  const auto outputs = [&](std::uint64_t rows) {
    const nb::gil_scoped_acquire acquire;
    const nb::tuple made = nb::cast<nb::tuple>(make_outputs(rows));
    JoinOutputs to;
    const auto take = [&](std::size_t at, std::uint64_t width) -> void* {
      if (made[at].is_none()) return nullptr;
      const auto array = nb::cast<Output>(made[at]);
      if (array.size() != rows || array.itemsize() != width) throw UsageError("an output has another shape");
      to.pageable = to.pageable || !is_pinned(array.data());
      return array.data();
    };
    to.keys = take(0, static_cast<std::uint64_t>(native_bytes(type)));
    to.left_values = take(1, static_cast<std::uint64_t>(input.left.value_width));
    to.right_values = take(2, static_cast<std::uint64_t>(input.right.value_width));
    return to;
  };
  const nb::gil_scoped_release release;
  return join_rows(runtime, plan, input, outputs);
}

nb::tuple ranges_of(Runtime& runtime, const JoinPlan& plan, KeyType type, const Input& left, const Input& right,
                    int row_number_bytes, bool verify, bool left_presorted, bool right_presorted) {
  const JoinInput input = input_of(type, left, right, std::nullopt, std::nullopt, row_number_bytes, "inner", verify,
                                   left_presorted, right_presorted);
  NumpyRanges buffers;
  {
    const nb::gil_scoped_release release;
    join_ranges(runtime, plan, input, [&](const RangeSizes& sizes) { return buffers.make(sizes); });
  }
  return buffers.take();
}

bool fits(Runtime& runtime, const JoinPlan& plan, KeyType type, std::uint64_t left, std::uint64_t right,
          int value_bytes, const std::string& how, bool wants_rows) {
  JoinInput input;
  input.left = {type, left, nullptr, to_value_width(value_bytes)};
  input.right = {type, right, nullptr, to_value_width(value_bytes)};
  input.kind = join_kind_from(how);
  return join_fits(runtime, plan, input, wants_rows);
}

void bind_subpartitions(nb::module_& m) {
  nb::class_<RunRange>(m, "RunRange").def_ro("begin", &RunRange::begin).def_ro("end", &RunRange::end);
  nb::class_<PairOfRanges>(m, "PairOfRanges").def_ro("left", &PairOfRanges::left).def_ro("right", &PairOfRanges::right);
  nb::class_<MergePathPartitions>(m, "MergePathPartitions")
      .def_ro("parts", &MergePathPartitions::parts)
      .def_ro("taken_out", &MergePathPartitions::taken_out);
  m.def(
      "cut_sorted",
      [](KeyType type, const std::vector<Input>& left, const std::vector<Input>& right, std::size_t parts) {
        const auto runs_of = [&](const std::vector<Input>& arrays) {
          SortedRuns side{type, {}};
          for (const Input& keys : arrays) side.runs.push_back({keys.data(), nullptr, keys.size()});
          return side;
        };
        if (parts == 0) throw UsageError("there is at least one part");
        return cut_sorted(runs_of(left), runs_of(right), parts);
      },
      nb::arg("key_type"), nb::arg("left"), nb::arg("right"), nb::arg("parts"));
}

}  // namespace

void bind_host_join(nb::module_& m) {
  bind_subpartitions(m);
  nb::enum_<JoinPath>(m, "JoinPath")
      .value("in_core", JoinPath::in_core)
      .value("sorted", JoinPath::sorted)
      .value("pairwise", JoinPath::pairwise)
      .value("hybrid_radix", JoinPath::hybrid_radix);
  auto plan = nb::class_<JoinPlan>(m, "JoinPlan")
                  .def(nb::init<>())
                  .def_rw("sort", &JoinPlan::sort)
                  .def("__str__", &JoinPlan::to_string)
                  .def("__copy__", [](const JoinPlan& self) { return self; });
  bind_fields(plan);
  nb::class_<JoinTotals>(m, "JoinTotals")
      .def_ro("rows", &JoinTotals::rows)
      .def_ro("left_sum", &JoinTotals::left_sum)
      .def_ro("right_sum", &JoinTotals::right_sum);
  m.def("join_fits", &fits, nb::arg("runtime"), nb::arg("plan"), nb::arg("key_type"), nb::arg("left_rows"),
        nb::arg("right_rows"), nb::arg("value_bytes"), nb::arg("how"), nb::arg("wants_rows"),
        "Whether a join of this size fits into the memory of the plan's GPUs.");
  m.def("join_totals", &totals_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("key_type"), nb::arg("left"),
        nb::arg("right"), nb::arg("left_values").none() = nb::none(), nb::arg("right_values").none() = nb::none(),
        nb::arg("how") = "inner", nb::arg("verify") = true, nb::arg("left_presorted") = false,
        nb::arg("right_presorted") = false,
        "How many rows a join of host columns has and, if both sides have values, their sums over the matches.");
  m.def("join_rows", &rows_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("key_type"), nb::arg("left"),
        nb::arg("right"), nb::arg("left_values").none(), nb::arg("right_values").none(), nb::arg("row_number_bytes"),
        nb::arg("how"), nb::arg("verify"), nb::arg("make_outputs"), nb::arg("left_presorted") = false,
        nb::arg("right_presorted") = false,
        "The rows of a join: make_outputs(rows) returns arrays for keys, left and right values, or None for what is "
        "not wanted. Without values, row numbers take their place.");
  m.def("join_ranges", &ranges_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("key_type"), nb::arg("left"),
        nb::arg("right"), nb::arg("row_number_bytes"), nb::arg("verify"), nb::arg("left_presorted") = false,
        nb::arg("right_presorted") = false,
        "The row numbers of both sides, grouped by key: left rows, each key's offset, and the same of the right.");
}

}  // namespace linkwise::binding
