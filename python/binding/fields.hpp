// Exposes plans to Python: every field that visit_fields names.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>
#include <utility>

#include "linkwise/plan/pinned.hpp"

namespace linkwise::binding {

template <typename Plan>
void bind_fields(nanobind::class_<Plan>& plan) {
  visit_fields(static_cast<const Plan*>(nullptr), [&](const char* name, auto member) { plan.def_rw(name, member); });
}

/// Defines a method that pins the named fields to their values in a given plan.
template <typename Constraints, typename Plan>
void bind_pinned(nanobind::class_<Constraints>& constraints, const char* name, Pinned<Plan> Constraints::* member) {
  constraints.def(
      name,
      [member](Constraints& self, const Plan& values, std::set<std::string> names) {
        self.*member = {values, std::move(names)};
      },
      nanobind::arg("values"), nanobind::arg("names"));
}

}  // namespace linkwise::binding
