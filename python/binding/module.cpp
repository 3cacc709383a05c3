#include <omp.h>

#include "bindings.hpp"
#include "linkwise/error.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

// The exceptions' Python bases are what Python code already catches: ValueError, MemoryError, RuntimeError.
void bind_errors(nb::module_& m) {
  // Translators are tried in reverse order of registration, so base classes are registered first.
  const auto error = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  nb::exception<UsageError>(m, "UsageError", nb::make_tuple(error, nb::handle(PyExc_ValueError)).ptr());
  nb::exception<OutOfMemoryError>(m, "OutOfMemoryError", nb::make_tuple(error, nb::handle(PyExc_MemoryError)).ptr());
  nb::exception<DeviceError>(m, "DeviceError", error.ptr());
  nb::exception<CorruptDataError>(m, "CorruptDataError", error.ptr());
  nb::exception<Cancelled>(m, "Cancelled", error.ptr());
  const auto program_error = nb::exception<ProgramError>(m, "ProgramError", error.ptr());
  nb::exception<RaceError>(m, "RaceError", program_error.ptr());
  nb::exception<DeadlockError>(m, "DeadlockError", program_error.ptr());
  nb::exception<UseAfterFreeError>(m, "UseAfterFreeError", program_error.ptr());
}

}  // namespace linkwise::binding

NB_MODULE(_core, m) {
  using namespace linkwise::binding;
  nanobind::set_leak_warnings(false);  // the caller's module-level objects outlive the interpreter, which is no leak
  m.doc() = "Linkwise's core: machines, devices, primitives, sorts and plans.";
  m.def(
      "release_threads", [] { (void)omp_pause_resource_all(omp_pause_soft); },
      "Ends this thread's idle OpenMP worker threads, which a fork would not copy.");
  bind_errors(m);
  bind_machine(m);
  bind_device(m);
  bind_virtual_runtime(m);
  bind_primitives(m);
  bind_sort(m);
  bind_parquet(m);
  bind_rows(m);
  bind_gathering(m);
  bind_mapped_file(m);
  bind_device_arrays(m);
  bind_device_columns(m);
  bind_arrow_columns(m);
  bind_device_strings(m);
  bind_device_rows(m);
  bind_device_sort(m);
  bind_foreign_arrays(m);
  bind_join(m);
  bind_hash_join(m);
  bind_host_join(m);
  bind_matching(m);
  bind_plan(m);
  bind_probe(m);
  bind_apps(m);
}
