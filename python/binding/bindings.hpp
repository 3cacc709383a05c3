// The Python module linkwise._core: thin, typed, no algorithm. One function a room.
#pragma once

#include <nanobind/nanobind.h>

namespace linkwise::binding {

void bind_errors(nanobind::module_& m);
void bind_machine(nanobind::module_& m);
void bind_device(nanobind::module_& m);
void bind_primitives(nanobind::module_& m);
void bind_sort(nanobind::module_& m);
void bind_rows(nanobind::module_& m);
void bind_device_sort(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_probe(nanobind::module_& m);

}  // namespace linkwise::binding
