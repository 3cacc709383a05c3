// The Python module linkwise._core: thin, typed bindings without algorithms. One function per area.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace linkwise::binding {

void bind_errors(nanobind::module_& m);
void bind_machine(nanobind::module_& m);
void bind_device(nanobind::module_& m);
void bind_virtual_runtime(nanobind::module_& m);
void bind_primitives(nanobind::module_& m);
void bind_sort(nanobind::module_& m);
void bind_rows(nanobind::module_& m);
void bind_gathering(nanobind::module_& m);
void bind_mapped_file(nanobind::module_& m);
void bind_device_arrays(nanobind::module_& m);
void bind_device_columns(nanobind::module_& m);
void bind_arrow_columns(nanobind::module_& m);
void bind_device_sort(nanobind::module_& m);
void bind_foreign_arrays(nanobind::module_& m);
void bind_join(nanobind::module_& m);
void bind_hash_join(nanobind::module_& m);
void bind_host_join(nanobind::module_& m);
void bind_matching(nanobind::module_& m);
void bind_apps(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_probe(nanobind::module_& m);

/// Numbers on a GPU, and the address of their bits of validity; 0 if none is null.
struct ArrowNumbers {
  std::uintptr_t address = 0, validity = 0;
  std::int64_t count = 0;
  std::string format;
  int gpu = 0;
};
/// The two capsules of Arrow's C device interface for numbers that are complete; `owner` keeps their memory alive.
nanobind::tuple arrow_device_array_of(const ArrowNumbers& numbers, const nanobind::object& owner);

}  // namespace linkwise::binding
