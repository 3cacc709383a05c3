#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "linkwise/plan/sort_planner.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

void bind_plan(nb::module_& m) {
  nb::class_<SortWorkload>(m, "SortWorkload")
      .def(nb::init<>())
      .def("__copy__", [](const SortWorkload& self) { return self; })
      .def_rw("key_type", &SortWorkload::key_type)
      .def_rw("count", &SortWorkload::count)
      .def_prop_rw(
          "value_bytes", [](const SortWorkload& w) { return static_cast<int>(w.value_width); },
          [](SortWorkload& w, int bytes) { w.value_width = to_value_width(bytes); })
      .def_rw("values_from_host", &SortWorkload::values_from_host)
      .def_rw("keys_returned", &SortWorkload::keys_returned)
      .def_rw("pageable", &SortWorkload::pageable)
      .def_rw("pageable_out", &SortWorkload::pageable_out)
      .def_rw("verify", &SortWorkload::verify);
  nb::class_<SortConstraints>(m, "SortConstraints")
      .def(nb::init<>())
      .def_rw("gpus", &SortConstraints::gpus)
      .def_rw("strategy", &SortConstraints::strategy, nb::arg().none())
      .def_rw("memory_limit", &SortConstraints::memory_limit);
  nb::class_<PricedPlan>(m, "PricedPlan")
      .def_ro("plan", &PricedPlan::plan)
      .def_ro("seconds", &PricedPlan::seconds)
      .def_ro("phases", &PricedPlan::phases);
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("plan_sort", &plan_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("constraints"), Release());
  m.def("estimate_device_sort", &estimate_device_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("plan"),
        nb::arg("donated") = false, Release());
  m.def("estimate_sort", &estimate_sort, nb::arg("machine"), nb::arg("workload"), nb::arg("plan"),
        nb::arg("memory_limit") = 0, Release());
}

}  // namespace linkwise::binding
