#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "fields.hpp"
#include "linkwise/plan/join_planner.hpp"
#include "linkwise/plan/sort_planner.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

void bind_plan(nb::module_& m) {
  nb::class_<SortWorkload>(m, "SortWorkload")
      .def(nb::init<>())
      .def("__copy__", [](const SortWorkload& self) { return self; })
      .def("__eq__", [](const SortWorkload& a, const SortWorkload& b) { return a == b; })
      .def_rw("key_type", &SortWorkload::key_type)
      .def_rw("count", &SortWorkload::count)
      .def_prop_rw(
          "value_bytes", [](const SortWorkload& w) { return static_cast<int>(w.value_width); },
          [](SortWorkload& w, int bytes) { w.value_width = to_value_width(bytes); })
      .def_rw("values_from_host", &SortWorkload::values_from_host)
      .def_rw("keys_returned", &SortWorkload::keys_returned)
      .def_rw("expected_order", &SortWorkload::expected_order)
      .def_rw("pageable", &SortWorkload::pageable)
      .def_rw("pageable_out", &SortWorkload::pageable_out)
      .def_rw("verify", &SortWorkload::verify);
  auto of_sort = nb::class_<SortConstraints>(m, "SortConstraints")
                     .def(nb::init<>())
                     .def_rw("gpus", &SortConstraints::gpus)
                     .def_rw("strategy", &SortConstraints::strategy, nb::arg().none())
                     .def_rw("memory_limit", &SortConstraints::memory_limit);
  bind_pinned(of_sort, "pin", &SortConstraints::pinned);
  nb::class_<PricedPlan>(m, "PricedPlan")
      .def_ro("plan", &PricedPlan::plan)
      .def_ro("seconds", &PricedPlan::seconds)
      .def_ro("phases", &PricedPlan::phases);
  nb::class_<JoinWorkload>(m, "JoinWorkload")
      .def(nb::init<>())
      .def("__copy__", [](const JoinWorkload& self) { return self; })
      .def("__eq__", [](const JoinWorkload& a, const JoinWorkload& b) { return a == b; })
      .def_rw("key_type", &JoinWorkload::key_type)
      .def_rw("left_rows", &JoinWorkload::left_rows)
      .def_rw("right_rows", &JoinWorkload::right_rows)
      .def_prop_rw(
          "value_bytes", [](const JoinWorkload& w) { return static_cast<int>(w.left_values); },
          [](JoinWorkload& w, int bytes) { w.left_values = w.right_values = to_value_width(bytes); })
      .def_prop_rw(
          "how", [](const JoinWorkload& w) { return static_cast<int>(w.kind); },
          [](JoinWorkload& w, const std::string& how) { w.kind = join_kind_from(how); })
      .def_rw("wants_rows", &JoinWorkload::wants_rows)
      .def_rw("wants_ranges", &JoinWorkload::wants_ranges)
      .def_rw("left_presorted", &JoinWorkload::left_presorted)
      .def_rw("right_presorted", &JoinWorkload::right_presorted)
      .def_rw("expected_matches", &JoinWorkload::expected_matches)
      .def_rw("pageable", &JoinWorkload::pageable)
      .def_rw("verify", &JoinWorkload::verify);
  auto of_join = nb::class_<JoinConstraints>(m, "JoinConstraints")
                     .def(nb::init<>())
                     .def_rw("gpus", &JoinConstraints::gpus)
                     .def_rw("path", &JoinConstraints::path, nb::arg().none())
                     .def_rw("strategy", &JoinConstraints::strategy)
                     .def_rw("memory_limit", &JoinConstraints::memory_limit);
  bind_pinned(of_join, "pin", &JoinConstraints::pinned);
  bind_pinned(of_join, "pin_sort", &JoinConstraints::pinned_sort);
  nb::class_<PricedJoin>(m, "PricedJoin")
      .def_ro("plan", &PricedJoin::plan)
      .def_ro("seconds", &PricedJoin::seconds)
      .def_ro("phases", &PricedJoin::phases);
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("plan_sort", &plan_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("constraints"), Release());
  m.def("plan_join", &plan_join, nb::arg("machine"), nb::arg("workload"), nb::arg("constraints"), Release());
  m.def("estimate_join", &estimate_join, nb::arg("machine"), nb::arg("workload"), nb::arg("plan"),
        nb::arg("memory_limit") = 0, Release());
  m.def("estimate_device_sort", &estimate_device_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("plan"),
        nb::arg("donated") = false, nb::arg("memory_limit") = 0, Release());
  m.def("estimate_sort", &estimate_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("plan"),
        nb::arg("memory_limit") = 0, Release());
}

}  // namespace linkwise::binding
