// Runtime, streams, events and memory, for the contract suite and for experiments.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <tuple>

#include "bindings.hpp"
#include "linkwise/device/arena.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/device/runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;
using ConstArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

MemoryView view_of(const ConstArray& array) {
  return {Place::host(), static_cast<std::byte*>(const_cast<void*>(array.data())), array.nbytes(), 0,
          !is_pinned(array.data())};  // NOLINT
}

void bind_arena(nb::module_& m) {
  nb::class_<StackArena>(m, "StackArena")
      .def(nb::init<std::uint64_t, std::uint64_t>(), nb::arg("capacity"), nb::arg("alignment"))
      .def(
          "allocate",
          [](StackArena& self, std::uint64_t bytes) -> std::optional<std::uint64_t> {
            const std::uint64_t offset = self.allocate(bytes);
            return offset == StackArena::none ? std::nullopt : std::optional(offset);
          },
          nb::arg("bytes"), "The offset of a new allocation, or None if it does not fit.")
      .def("release", &StackArena::release, nb::arg("offset"))
      .def_prop_ro("top", &StackArena::top)
      .def_prop_ro("empty", &StackArena::empty);
}

void bind_timeline(nb::module_& m) {
  nb::class_<Passage>(m, "Passage")
      .def("__getstate__", [](const Passage& self) { return std::tuple(self.from, self.to, self.bytes, self.links); })
      .def("__setstate__",
           [](Passage& self, const std::tuple<Place, Place, std::uint64_t, decltype(Passage::links)>& state) {
             new (&self) Passage();
             std::tie(self.from, self.to, self.bytes, self.links) = state;
           })
      .def_ro("source", &Passage::from)
      .def_ro("target", &Passage::to)
      .def_ro("bytes", &Passage::bytes)
      .def_ro("links", &Passage::links);
  using EntryState = std::tuple<std::string, std::string, std::string, Place, Place, Place, std::uint64_t, bool,
                                decltype(TimelineEntry::passages), std::int64_t, std::int64_t>;
  nb::class_<TimelineEntry>(m, "TimelineEntry")
      .def("__getstate__",
           [](const TimelineEntry& self) {
             return EntryState(self.name, self.phase, self.stream, self.place, self.from, self.to, self.bytes,
                               self.is_copy, self.passages, self.start_ps, self.end_ps);
           })
      .def("__setstate__",
           [](TimelineEntry& self, const EntryState& state) {
             new (&self) TimelineEntry();
             std::tie(self.name, self.phase, self.stream, self.place, self.from, self.to, self.bytes, self.is_copy,
                      self.passages, self.start_ps, self.end_ps) = state;
           })
      .def_ro("name", &TimelineEntry::name)
      .def_ro("phase", &TimelineEntry::phase)
      .def_ro("stream", &TimelineEntry::stream)
      .def_ro("place", &TimelineEntry::place)
      .def_ro("source", &TimelineEntry::from)
      .def_ro("target", &TimelineEntry::to)
      .def_ro("bytes", &TimelineEntry::bytes)
      .def_ro("is_copy", &TimelineEntry::is_copy)
      .def_ro("passages", &TimelineEntry::passages)
      .def_ro("start_ps", &TimelineEntry::start_ps)
      .def_ro("end_ps", &TimelineEntry::end_ps);
  nb::class_<PhaseTime>(m, "PhaseTime").def_ro("phase", &PhaseTime::phase).def_ro("seconds", &PhaseTime::seconds);
}

void bind_handles(nb::module_& m) {
  nb::class_<Stream>(m, "Stream").def_ro("place", &Stream::place);
  nb::class_<Event>(m, "Event");
  nb::class_<Flag>(m, "Flag");
  nb::class_<MemoryView>(m, "MemoryView")
      .def_ro("place", &MemoryView::place)
      .def_ro("bytes", &MemoryView::bytes)
      .def_prop_ro("address", [](const MemoryView& self) { return reinterpret_cast<std::uintptr_t>(self.data); })
      .def("slice", &MemoryView::slice, nb::arg("offset"), nb::arg("bytes"));
  nb::class_<Buffer>(m, "Buffer")
      .def_prop_ro("view", &Buffer::view)
      .def("slice", &Buffer::slice, nb::arg("offset"), nb::arg("bytes"))
      .def("release", [](Buffer& self) { self = Buffer(); }, "Frees the memory now.");

  nb::class_<std::stop_source>(m, "StopSource").def(nb::init<>()).def("request_stop", [](std::stop_source& self) {
    self.request_stop();
  });

  nb::class_<Runtime::Progress>(m, "Progress")
      .def_ro("enqueued", &Runtime::Progress::enqueued)
      .def_ro("finished", &Runtime::Progress::finished);
}

using OfRuntime = nb::class_<Runtime>;
using Release = nb::call_guard<nb::gil_scoped_release>;

void bind_memory(OfRuntime& runtime) {
  runtime.def("available", &Runtime::available, nb::arg("place"))
      .def("reserved", &Runtime::reserved, nb::arg("place"))
      .def("set_memory_limit", &Runtime::set_memory_limit, nb::arg("bytes_per_gpu"))
      .def("reserve", &Runtime::reserve, nb::arg("place"), nb::arg("bytes"))
      .def("trim", &Runtime::trim)
      .def(
          "allocate",
          [](Runtime& self, Place place, std::uint64_t bytes, const std::string& label) {
            return self.allocate(place, bytes, label);
          },
          nb::arg("place"), nb::arg("bytes"), nb::arg("label") = "buffer", nb::keep_alive<0, 1>());
}

void bind_order(OfRuntime& runtime) {
  runtime
      .def(
          "stream", [](Runtime& self, Place place, const std::string& name) { return self.stream(place, name); },
          nb::arg("place"), nb::arg("name") = "main")
      .def(
          "record", [](Runtime& self, Stream stream) { return self.record(stream); }, nb::arg("stream"))
      .def(
          "stream_wait", [](Runtime& self, Stream stream, Event event) { self.wait(stream, event); }, nb::arg("stream"),
          nb::arg("event"))
      .def(
          "flag", [](Runtime& self, const std::string& name) { return self.flag(name); }, nb::arg("name"))
      .def("set_flag", &Runtime::set, nb::arg("stream"), nb::arg("flag"), nb::arg("value"))
      .def(
          "wait_flag",
          [](Runtime& self, Stream stream, Flag flag, std::uint32_t value) { self.wait(stream, flag, value); },
          nb::arg("stream"), nb::arg("flag"), nb::arg("value"))
      .def(
          "wait", [](Runtime& self, Event event) { self.wait(event); }, nb::arg("event"), Release())
      .def("synchronize", [](Runtime& self) { self.synchronize(); }, Release());
}

void bind_copies(OfRuntime& runtime) {
  runtime
      .def("copy", &Runtime::copy, nb::arg("stream"), nb::arg("to"), nb::arg("source"))
      // The runtime keeps the arrays alive for its whole lifetime, since nothing else knows when their copies have
      // run.
      .def(
          "copy_in",
          [](Runtime& self, Stream stream, const MemoryView& to, const ConstArray& array) {
            self.copy(stream, to, view_of(array));
          },
          nb::arg("stream"), nb::arg("to"), nb::arg("array"), nb::keep_alive<1, 4>())
      .def(
          "copy_out",
          [](Runtime& self, Stream stream, const Array& array, const MemoryView& from) {
            self.copy(stream, view_of(ConstArray(array)), from);
          },
          nb::arg("stream"), nb::arg("array"), nb::arg("source"), nb::keep_alive<1, 3>())
      .def(
          "read_back",
          [](Runtime& self, Stream stream, const MemoryView& from, const nb::bytes& expectation) {
            if (expectation.size() != 0 && expectation.size() != from.bytes)
              throw UsageError("the expectation has another size");
            std::string result(from.bytes, '\0');
            const ReadBack read{stream, from, result.data(), expectation.size() == 0 ? nullptr : expectation.c_str()};
            {
              const nb::gil_scoped_release release;
              self.read_back(read);
            }
            return nb::bytes(result.data(), result.size());
          },
          nb::arg("stream"), nb::arg("source"), nb::arg("expectation") = nb::bytes("", 0));
}

void bind_progress(OfRuntime& runtime) {
  runtime.def(
             "set_phase", [](Runtime& self, const std::string& phase) { self.set_phase(phase); }, nb::arg("phase"))
      .def("timeline", &Runtime::timeline, Release())
      .def("clear_timeline", &Runtime::clear_timeline, Release())
      .def("progress", &Runtime::progress)
      .def(
          "set_stop_source",
          [](Runtime& self, const std::stop_source& source) { self.set_stop_token(source.get_token()); },
          nb::arg("source"));
}

void bind_runtime(nb::module_& m) {
  OfRuntime runtime(m, "Runtime");
  runtime.def_prop_ro("machine", [](const Runtime& self) { return self.machine(); })
      .def_prop_ro("simulated", &Runtime::simulated)
      .def_prop_ro("estimating", &Runtime::estimating)
      .def(
          "reach_each_other",
          [](const Runtime& self, const std::vector<int>& gpus) { return self.reach_each_other(gpus); },
          nb::arg("gpus"));
  bind_memory(runtime);
  bind_order(runtime);
  bind_copies(runtime);
  bind_progress(runtime);
}

void bind_gpus(nb::module_& m) {
  m.def(
      "cuda_runtime", [](const Machine& machine) { return open_gpus(machine); }, nb::arg("machine"),
      "The runtime of the GPUs that are visible to CUDA; `machine` describes them.");
  nb::class_<CudaGpu>(m, "CudaGpu")
      .def_ro("name", &CudaGpu::name)
      .def_ro("memory_gib", &CudaGpu::memory_gib)
      .def_ro("multiprocessors", &CudaGpu::multiprocessors)
      .def_ro("compute_capability", &CudaGpu::compute_capability)
      .def_ro("pci_bus_id", &CudaGpu::pci_bus_id)
      .def_ro("peers", &CudaGpu::peers);
  m.def("cuda_driver_version", &cuda_driver_version, "For example 13000 for 13.0; 0 without a driver.");
  nb::class_<GpuSeat::NvLink>(m, "NvLinkSeat")
      .def_ro("version", &GpuSeat::NvLink::version)
      .def_ro("to_switch", &GpuSeat::NvLink::to_switch)
      .def_ro("target_bus_id", &GpuSeat::NvLink::target_bus_id);
  nb::class_<GpuSeat>(m, "GpuSeat")
      .def_ro("bus_id", &GpuSeat::bus_id)
      .def_ro("numa_node", &GpuSeat::numa_node)
      .def_ro("pcie_generation", &GpuSeat::pcie_generation)
      .def_ro("pcie_width", &GpuSeat::pcie_width)
      .def_ro("nvlinks", &GpuSeat::nvlinks);
  m.def("gpu_seats", &gpu_seats, "Each GPU's place in the machine, as reported by NVML and the kernel.");
  m.def("cuda_gpus", &cuda_gpus, nb::call_guard<nb::gil_scoped_release>(), "CUDA's properties of each usable GPU.");
  m.def(
      "cuda_unavailable_reason",
      [] {
        std::string why;
        return count_cuda_gpus(&why) > 0 ? std::string() : why;
      },
      nb::call_guard<nb::gil_scoped_release>(), "Why CUDA cannot be used here; empty where it can.");
}

}  // namespace

void bind_device(nb::module_& m) {
  bind_arena(m);
  bind_timeline(m);
  bind_handles(m);
  bind_runtime(m);
  bind_gpus(m);
  m.def(
      "pinned_bytes",
      [](std::uint64_t bytes, int numa_node) {
        auto* memory = new PinnedMemory(bytes, numa_node);
        const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<PinnedMemory*>(p); });
        return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(memory->data(), {bytes}, owner);
      },
      nb::arg("bytes"), nb::arg("numa_node") = -1,
      "Pinned memory if CUDA can be used, otherwise plain aligned memory; on a NUMA node, unless that is -1.");
  m.def("is_pinned", [](const ConstArray& array) { return is_pinned(array.data()); }, nb::arg("array"));
}

}  // namespace linkwise::binding
