// Measuring machines.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/probe/families.hpp"
#include "linkwise/probe/quick_probe.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using HostArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

HostPool pool_of(const HostArray& source, const HostArray& target) {
  const auto view = [](const HostArray& array) {
    return MemoryView{Place::host(), static_cast<std::byte*>(array.data()), array.nbytes(), 0,
                      !is_pinned(array.data())};
  };
  return {view(source), view(target)};
}

}  // namespace

void bind_probe(nb::module_& m) {
  nb::class_<Transfer>(m, "Transfer")
      .def(
          "__init__",
          [](Transfer* self, Place from, Place to, std::uint64_t bytes, bool pageable, std::vector<int> over) {
            new (self) Transfer{from, to, bytes, pageable, std::move(over)};
          },
          nb::arg("source"), nb::arg("target"), nb::arg("bytes"), nb::arg("pageable") = false,
          nb::arg("over") = std::vector<int>())
      .def_ro("source", &Transfer::from)
      .def_ro("target", &Transfer::to)
      .def_ro("bytes", &Transfer::bytes);
  nb::class_<Measurement>(m, "Measurement")
      .def_ro("seconds", &Measurement::seconds)
      .def_ro("spread", &Measurement::spread)
      .def_ro("gb_per_s", &Measurement::gb_per_s)
      .def_ro("repetitions", &Measurement::repetitions)
      .def_ro("verified", &Measurement::verified);
  nb::enum_<HostDirection>(m, "HostDirection")
      .value("in_", HostDirection::in)
      .value("out", HostDirection::out)
      .value("both", HostDirection::both);
  nb::class_<HostObservation>(m, "HostObservation")
      .def(
          "__init__",
          [](HostObservation* self, HostDirection direction, std::vector<int> gpus, double gb_per_s) {
            new (self) HostObservation{direction, std::move(gpus), gb_per_s};
          },
          nb::arg("direction"), nb::arg("gpus"), nb::arg("gb_per_s"));
  nb::class_<HostPaths>(m, "HostPaths")
      .def_ro("groups", &HostPaths::groups)
      .def_ro("constraints", &HostPaths::constraints)
      .def_ro("findings", &HostPaths::findings);
  nb::class_<ProbeOptions>(m, "ProbeOptions")
      .def(nb::init<>())
      .def_rw("bytes", &ProbeOptions::bytes)
      .def_rw("records", &ProbeOptions::records)
      .def_rw("patience_seconds", &ProbeOptions::patience_seconds)
      .def_rw("pool_bytes", &ProbeOptions::pool_bytes)
      .def_rw("other_sets", &ProbeOptions::other_sets);
  nb::class_<ProbeRow>(m, "ProbeRow")
      .def_ro("name", &ProbeRow::name)
      .def_ro("what", &ProbeRow::what)
      .def_ro("measured", &ProbeRow::measured)
      .def_ro("predicted_gb_per_s", &ProbeRow::predicted_gb_per_s)
      .def_ro("fitted", &ProbeRow::fitted)
      .def_ro("bytes", &ProbeRow::bytes)
      .def_ro("why_not", &ProbeRow::why_not);
  nb::class_<FamilyOptions>(m, "FamilyOptions")
      .def(nb::init<>())
      .def_rw("largest", &FamilyOptions::largest)
      .def_rw("bytes", &FamilyOptions::bytes)
      .def_rw("patience_seconds", &FamilyOptions::patience_seconds)
      .def_rw("pool_bytes", &FamilyOptions::pool_bytes)
      .def_rw("nccl", &FamilyOptions::nccl);
  nb::class_<Profile>(m, "Profile")
      .def_ro("machine", &Profile::machine)
      .def_ro("rows", &Profile::rows)
      .def_ro("findings", &Profile::findings);
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("infer_host_paths", &infer_host_paths, nb::arg("num_gpus"), nb::arg("observations"));
  m.def("quick_probe", &quick_probe, nb::arg("runtime"), nb::arg("options"), Release());
  m.def(
      "quick_probe_in",
      [](Runtime& runtime, ProbeOptions options, const HostArray& source, const HostArray& target) {
        const HostPool pool = pool_of(source, target);
        options.pool = &pool;
        const nb::gil_scoped_release released;
        return quick_probe(runtime, options);
      },
      nb::arg("runtime"), nb::arg("options"), nb::arg("source"), nb::arg("target"),
      "Like quick_probe, with host transfers from and to these arrays, which are overwritten.");
  m.def("family_names", &family_names);
  m.def("measure_families", &measure_families, nb::arg("runtime"), nb::arg("fitted"), nb::arg("names"),
        nb::arg("options"), Release());
  m.def(
      "measure_smallest_copy",
      [](Runtime& runtime, Place from, Place to) { return Prober(runtime, 0.1).smallest_copy(from, to); },
      nb::arg("runtime"), nb::arg("source"), nb::arg("target"), Release());
  m.def(
      "measure_transfers_in",
      [](Runtime& runtime, const std::vector<Transfer>& pattern, const HostArray& source, const HostArray& target) {
        const HostPool pool = pool_of(source, target);
        const nb::gil_scoped_release released;
        return Prober(runtime, 0, &pool).transfers(pattern);
      },
      nb::arg("runtime"), nb::arg("pattern"), nb::arg("source"), nb::arg("target"),
      "Like measure_transfers, with windows of these arrays, which are overwritten, as host memory.");
  m.def(
      "measure_transfers",
      [](Runtime& runtime, const std::vector<Transfer>& pattern, double patience_seconds) {
        return Prober(runtime, patience_seconds).transfers(pattern);
      },
      nb::arg("runtime"), nb::arg("pattern"), nb::arg("patience_seconds") = 0.1, Release());
}

}  // namespace linkwise::binding
