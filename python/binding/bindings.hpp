// The Python module linkwise._core: thin, typed bindings without algorithms. One function per area.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace linkwise::binding {

void bind_errors(nanobind::module_& m);
void bind_machine(nanobind::module_& m);
void bind_device(nanobind::module_& m);
void bind_virtual_runtime(nanobind::module_& m);
void bind_primitives(nanobind::module_& m);
void bind_sort(nanobind::module_& m);
void bind_parquet(nanobind::module_& m);
void bind_rows(nanobind::module_& m);
void bind_gathering(nanobind::module_& m);
void bind_mapped_file(nanobind::module_& m);
void bind_device_arrays(nanobind::module_& m);
void bind_device_columns(nanobind::module_& m);
void bind_arrow_columns(nanobind::module_& m);
void bind_device_strings(nanobind::module_& m);
void bind_device_rows(nanobind::module_& m);
void bind_device_sort(nanobind::module_& m);
void bind_foreign_arrays(nanobind::module_& m);
void bind_join(nanobind::module_& m);
void bind_hash_join(nanobind::module_& m);
void bind_host_join(nanobind::module_& m);
void bind_matching(nanobind::module_& m);
void bind_apps(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_probe(nanobind::module_& m);

/// The capsules of Arrow's C device interface for a type without parameters, and for buffers whose contents are
/// complete; `owner` keeps these alive. The first buffer has bits of validity, or is null if no row is.
nanobind::object arrow_schema_capsule(const std::string& format);
nanobind::object arrow_array_capsule(std::vector<const void*> buffers, std::int64_t count, std::int64_t null_count,
                                     int gpu, const nanobind::object& owner);

}  // namespace linkwise::binding
