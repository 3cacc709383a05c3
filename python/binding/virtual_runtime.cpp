// The virtual machine, including functions that only tests and estimates use.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "linkwise/device/audited_runtime.hpp"
#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;

// For example "src/linkwise/sort/host_sort.cpp:61".
std::string place_of(const Site& site) {
  std::string file = site.file_name();
  for (const char* root : {"src/linkwise/", "python/binding/", "apps/"})
    if (const auto at = file.rfind(root); at != std::string::npos) file = file.substr(at);
  return file + ":" + std::to_string(site.line());
}

// For example "HostSort::run".
std::string function_of(const Site& site) {
  std::string name = site.function_name();
  name.resize(std::min({name.find('('), name.find('['), name.size()}));
  name = name.substr(name.rfind(' ') + 1);
  name.resize(std::min(name.find('<'), name.size()));
  const auto of_member = name.rfind("::");
  if (of_member == std::string::npos) return name;
  const auto of_class = name.rfind("::", of_member - 1);
  if (of_class == std::string::npos) return std::islower(name.front()) != 0 ? name.substr(of_member + 2) : name;
  const std::string owner = name.substr(of_class + 2, of_member - of_class - 2);
  return std::isupper(owner.front()) != 0 ? owner + name.substr(of_member) : name.substr(of_member + 2);
}

std::vector<std::tuple<std::string, std::string, std::string, bool>> waits_of(const VirtualRuntime& runtime) {
  static constexpr const char* names[] = {"event", "flag", "host", "synchronize", "read_back", "flush", "record"};
  std::vector<std::tuple<std::string, std::string, std::string, bool>> waits;
  for (const LoggedWait& wait : runtime.waits())
    waits.emplace_back(names[static_cast<int>(wait.kind)], place_of(wait.site), function_of(wait.site), wait.orders);
  return waits;
}

}  // namespace

void bind_virtual_runtime(nb::module_& m) {
  nb::class_<AuditedRuntime, Runtime>(m, "AuditedRuntime",
                                      "Wraps a runtime and checks that its operations touch only what they declare.")
      .def(nb::init<Runtime&>(), nb::arg("inner"), nb::keep_alive<1, 2>())
      .def_prop_ro("inner", &AuditedRuntime::inner, nb::rv_policy::reference_internal)
      .def_prop_ro("audited", &AuditedRuntime::audited)
      .def(
          "copy_declaring",
          [](AuditedRuntime& self, Stream stream, const MemoryView& to, const MemoryView& from,
             std::vector<MemoryView> reads, std::vector<MemoryView> writes) {
            const auto run = [to, from](void*) { std::memcpy(to.data, from.data, from.bytes); };
            self.enqueue(stream, {"copy", std::move(reads), std::move(writes), {}, run});
          },
          nb::arg("stream"), nb::arg("to"), nb::arg("source"), nb::arg("reads"), nb::arg("writes"),
          "For tests: an operation that copies on a simulated device but declares other memory.")
      .def_prop_ro("findings", &AuditedRuntime::findings);
  nb::enum_<VirtualMode>(m, "VirtualMode")
      .value("execute", VirtualMode::execute)
      .value("estimate", VirtualMode::estimate);
  nb::class_<VirtualRuntime, Runtime>(m, "VirtualRuntime")
      .def(
          "__init__",
          [](VirtualRuntime* self, const Machine& machine, VirtualMode mode, std::uint64_t seed) {
            new (self) VirtualRuntime(machine, mode, seed, make_virtual_kernels());
          },
          nb::arg("machine"), nb::arg("mode") = VirtualMode::execute, nb::arg("seed") = 0)
      .def(
          "set_faults",
          [](VirtualRuntime& self, std::uint64_t memory_of_others, std::uint64_t failing_operation,
             std::uint64_t failing_allocation, std::uint64_t flipped_copy, std::uint64_t left_out_wait) {
            self.set_faults({memory_of_others, failing_operation, failing_allocation, flipped_copy, left_out_wait});
          },
          nb::arg("memory_of_others") = 0, nb::arg("failing_operation") = 0, nb::arg("failing_allocation") = 0,
          nb::arg("flipped_copy") = 0, nb::arg("left_out_wait") = 0, "Injects faults, for tests.")
      .def_prop_ro("large_copies", &VirtualRuntime::large_copies, "Copies of data since set_faults.")
      .def_prop_ro(
          "waits", &waits_of,
          "Each wait since set_faults: its kind, source location and function, and whether it adds an ordering that "
          "no other wait provides.")
      .def(
          "view",
          [](const VirtualRuntime&, Place place, const Array& array) {
            return MemoryView{place, static_cast<std::byte*>(array.data()), array.nbytes(), 0, false};
          },
          nb::arg("place"), nb::arg("array"), "An array that stands in for other software's memory at a place.")
      .def(
          "host_reads", [](VirtualRuntime& self, const MemoryView& view) { self.host_reads(view, "reads an array"); },
          nb::arg("view"), "Raises RaceError unless the host has waited for all operations that write these bytes.")
      .def(
          "caller_copies",
          [](VirtualRuntime& self, Place place, std::int64_t stream, const MemoryView& to, const MemoryView& from) {
            if (to.bytes != from.bytes) throw UsageError("the two sides of a copy differ in size");
            const auto run = [to, from](void*) { std::memcpy(to.data, from.data, to.bytes); };
            self.enqueue_as_caller(self.foreign_stream(place, native_stream(stream)),
                                   {"the caller's copy", {from}, {to}, {}, run});
          },
          nb::arg("place"), nb::arg("stream"), nb::arg("to"), nb::arg("source"),
          "Other software copies on a stream of its own.")
      .def(
          "caller_synchronizes",
          [](VirtualRuntime& self, Place place, std::int64_t stream) {
            self.record_foreign(place, native_stream(stream))->wait();
          },
          nb::arg("place"), nb::arg("stream"), "Other software waits for its stream.")
      .def(
          "price_work",
          [](VirtualRuntime& self, Stream stream, const std::string& name, double microseconds) {
            self.enqueue(stream, {name, {}, {}, {.microseconds = microseconds}, nullptr});
          },
          nb::arg("stream"), nb::arg("name"), nb::arg("microseconds"),
          "Enqueues a kernel that takes this long when it has its processor to itself.")
      .def(
          "price_stores",
          [](VirtualRuntime& self, Stream stream, const std::string& name, const MemoryView& to,
             const MemoryView& source, double fixed_us, double goodput) {
            const Work work{.fixed_us = fixed_us, .only_transfers = true, .goodput = goodput};
            self.enqueue(stream, {name, {source}, {to}, work, nullptr});
          },
          nb::arg("stream"), nb::arg("name"), nb::arg("to"), nb::arg("source"), nb::arg("fixed_us"),
          nb::arg("goodput") = 1.0,
          "A running kernel's stores to another place: at the rate of the links, without a copy's start-up.")
      .def(
          "memory",
          [](const VirtualRuntime& self, Place place, std::uint64_t bytes, bool pageable) {
            if (!self.estimating()) throw UsageError("only an estimate has memory without contents");
            return MemoryView{place, nullptr, bytes, 0, pageable};
          },
          nb::arg("place"), nb::arg("bytes"), nb::arg("pageable") = false, "Memory without contents, for estimates.");
}

}  // namespace linkwise::binding
