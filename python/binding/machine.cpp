#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "linkwise/machine/machine.hpp"
#include "linkwise/machine/paths.hpp"
#include "linkwise/machine/rings.hpp"
#include "linkwise/machine/symmetry.hpp"
#include "linkwise/machine/topology.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

namespace {

void bind_nodes_and_links(nb::module_& m) {
  nb::enum_<NodeKind>(m, "NodeKind")
      .value("socket", NodeKind::socket)
      .value("memory", NodeKind::memory)
      .value("pcie_switch", NodeKind::pcie_switch)
      .value("gpu", NodeKind::gpu)
      .value("nvswitch", NodeKind::nvswitch)
      .value("nic", NodeKind::nic)
      .value("network", NodeKind::network);
  nb::enum_<Traffic>(m, "Traffic")
      .value("host_to_device", Traffic::host_to_device)
      .value("device_to_host", Traffic::device_to_host)
      .value("peer", Traffic::peer);
  nb::class_<Node>(m, "Node").def(nb::init<>()).def_rw("name", &Node::name).def_rw("kind", &Node::kind);
  nb::class_<CapacityPoint>(m, "CapacityPoint")
      .def(nb::init<int, double>(), nb::arg("flows"), nb::arg("gb_per_s"))
      .def_rw("flows", &CapacityPoint::flows)
      .def_rw("gb_per_s", &CapacityPoint::gb_per_s);
  nb::class_<Link>(m, "Link")
      .def(nb::init<>())
      .def_rw("name", &Link::name)
      .def_rw("kind", &Link::kind)
      .def_rw("a", &Link::a)
      .def_rw("b", &Link::b)
      .def_rw("forward", &Link::forward)
      .def_rw("backward", &Link::backward)
      .def_rw("duplex", &Link::duplex)
      .def_rw("latency_us", &Link::latency_us)
      .def_rw("nominal_gb_per_s", &Link::nominal_gb_per_s);
  nb::class_<Term>(m, "Term")
      .def(nb::init<>())
      .def_rw("traffic", &Term::traffic)
      .def_rw("source", &Term::from)
      .def_rw("target", &Term::to)
      .def_rw("weight", &Term::weight);
  nb::class_<Constraint>(m, "Constraint")
      .def(nb::init<>())
      .def_rw("name", &Constraint::name)
      .def_rw("capacity", &Constraint::capacity)
      .def_rw("terms", &Constraint::terms);
}

void bind_processors(nb::module_& m) {
  nb::class_<Rate>(m, "Rate")
      .def(nb::init<double, double, double>(), nb::arg("fixed_us"), nb::arg("ps_per_record"), nb::arg("ps_per_byte"))
      .def_rw("fixed_us", &Rate::fixed_us)
      .def_rw("ps_per_record", &Rate::ps_per_record)
      .def_rw("ps_per_byte", &Rate::ps_per_byte);
  nb::class_<Processor>(m, "Processor")
      .def(nb::init<>())
      .def_rw("name", &Processor::name)
      .def_rw("memory_gib", &Processor::memory_gib)
      .def_rw("local_copy_gb_per_s", &Processor::local_copy_gb_per_s)
      .def_rw("rates", &Processor::rates);
}

void bind_copies(nb::module_& m) {
  nb::class_<CopyEngines>(m, "CopyEngines")
      .def(nb::init<>())
      .def_rw("host_to_device", &CopyEngines::host_to_device)
      .def_rw("device_to_host", &CopyEngines::device_to_host)
      .def_rw("peer", &CopyEngines::peer);
  nb::class_<CopyStartup>(m, "CopyStartup")
      .def(nb::init<>())
      .def_rw("host_to_device_us", &CopyStartup::host_to_device_us)
      .def_rw("device_to_host_us", &CopyStartup::device_to_host_us)
      .def_rw("peer_us", &CopyStartup::peer_us)
      .def_rw("local_us", &CopyStartup::local_us);
  nb::class_<AgentCosts>(m, "AgentCosts")
      .def(nb::init<>())
      .def_rw("inline_stall", &AgentCosts::inline_stall)
      .def_rw("memory_share", &AgentCosts::memory_share)
      .def_rw("saturating_threads", &AgentCosts::saturating_threads)
      .def_rw("tracking_ns", &AgentCosts::tracking_ns)
      .def_rw("polling_us", &AgentCosts::polling_us)
      .def_rw("polling_share", &AgentCosts::polling_share)
      .def_rw("polling_goodput", &AgentCosts::polling_goodput)
      .def_rw("dynamic_us", &AgentCosts::dynamic_us)
      .def_rw("dynamic_share", &AgentCosts::dynamic_share)
      .def_rw("copy_engine_us", &AgentCosts::copy_engine_us);
}

void bind_machine_itself(nb::module_& m) {
  nb::class_<Machine>(m, "Machine")
      .def(nb::init<>())
      .def("__copy__", [](const Machine& self) { return self; })
      .def("__repr__",
           [](const Machine& self) {
             return "<Machine: " + self.name + ", " + std::to_string(self.num_gpus()) + " GPUs>";
           })
      .def("_repr_html_",  // for notebooks: the machine as a picture
           [](nb::handle self) -> nb::object {
             return nb::module_::import_("linkwise.reports.machine_svg").attr("machine_svg")(self);
           })
      .def_rw("name", &Machine::name)
      .def_rw("description", &Machine::description)
      .def_rw("source", &Machine::source)
      .def_rw("nodes", &Machine::nodes)
      .def_rw("links", &Machine::links)
      .def_rw("constraints", &Machine::constraints)
      .def_rw("gpu", &Machine::gpu)
      .def_rw("host", &Machine::host)
      .def_rw("copy_engines", &Machine::copy_engines)
      .def_rw("copy_startup", &Machine::copy_startup)
      .def_rw("pageable_gb_per_s", &Machine::pageable_gb_per_s)
      .def_rw("staged_peers", &Machine::staged_peers)
      .def_rw("staged_peer_gb_per_s", &Machine::staged_peer_gb_per_s)
      .def_rw("zero_copy_read_gb_per_s", &Machine::zero_copy_read_gb_per_s)
      .def_rw("zero_copy_write_gb_per_s", &Machine::zero_copy_write_gb_per_s)
      .def_rw("store_goodput", &Machine::store_goodput)
      .def_rw("agents", &Machine::agents)
      .def_prop_ro("num_gpus", &Machine::num_gpus)
      .def_prop_ro("num_host_memories", &Machine::num_host_memories)
      .def("goodput_of_stores", &Machine::goodput_of_stores, nb::arg("bytes"))
      .def("validate", &Machine::validate);
}

void bind_places(nb::module_& m) {
  nb::class_<Place>(m, "Place")
      .def_static("gpu", &Place::gpu, nb::arg("index"))
      .def_static("host", &Place::host, nb::arg("index") = 0)
      .def("__getstate__", [](const Place& self) { return std::tuple(self.is_gpu(), self.index); })
      .def("__setstate__",
           [](Place& self, const std::tuple<bool, int>& state) {
             const auto [is_gpu, index] = state;
             new (&self) Place(is_gpu ? Place::gpu(index) : Place::host(index));
           })
      .def_prop_ro("is_gpu", &Place::is_gpu)
      .def_ro("index", &Place::index)
      .def("__repr__", &Place::name)
      .def("__eq__", [](const Place& a, const Place& b) { return a == b; });

  nb::class_<Path>(m, "Path")
      .def(
          "__init__",
          [](Path* self, Place from, Place to, std::vector<int> over, double fraction) {
            new (self) Path{from, to, std::move(over), fraction};
          },
          nb::arg("source"), nb::arg("target"), nb::arg("over"), nb::arg("fraction") = 1.0)
      .def_ro("source", &Path::from)
      .def_ro("target", &Path::to)
      .def_ro("over", &Path::over)
      .def_ro("fraction", &Path::fraction)
      .def("__repr__", [](const Path& path) { return to_string(path); });
  nb::class_<HostShares>(m, "HostShares").def_ro("share", &HostShares::share).def_ro("gb_per_s", &HostShares::gb_per_s);
}

void bind_routes(nb::module_& m) {
  m.def(
      "route_links",
      [](const Machine& machine, int from, int to) {
        Topology topology(machine);
        const auto place = [](int gpu) { return gpu < 0 ? Place::host(-1 - gpu) : Place::gpu(gpu); };
        return topology.route(place(from), place(to)).links;
      },
      nb::arg("machine"), nb::arg("source"), nb::arg("target"),
      "The links from one GPU to another; -1 is the first host memory, -2 the second.");
  m.def(
      "reach_each_other",
      [](const Machine& machine, const std::vector<int>& gpus) { return Topology(machine).reach_each_other(gpus); },
      nb::arg("machine"), nb::arg("gpus"), "Whether these GPUs' kernels can reach each other's memory.");
}

void bind_collectives(nb::module_& m) {
  nb::enum_<Collective>(m, "Collective")
      .value("broadcast", Collective::broadcast)
      .value("all_gather", Collective::all_gather)
      .value("reduce", Collective::reduce)
      .value("all_reduce", Collective::all_reduce)
      .value("reduce_scatter", Collective::reduce_scatter);
  nb::class_<Rings>(m, "Rings")
      .def_ro("rings", &Rings::rings)
      .def_ro("rates", &Rings::rates)
      .def_ro("over_links", &Rings::over_links)
      .def_ro("gb_per_s", &Rings::gb_per_s)
      .def_ro("step_us", &Rings::step_us);
  m.def(
      "rings_of",
      [](const Machine& machine, const std::vector<int>& gpus) {
        Topology topology(machine);
        return rings_of(topology, gpus);
      },
      nb::arg("machine"), nb::arg("gpus"));
  m.def("collective_seconds", &collective_seconds, nb::arg("collective"), nb::arg("rings"), nb::arg("gpus"),
        nb::arg("bytes"));
  m.def("collective_factor", &collective_factor, nb::arg("collective"), nb::arg("gpus"));
}

void bind_gpu_sets(nb::module_& m) {
  m.def(
      "distinct_gpu_sets",
      [](const Machine& machine) {
        Topology topology(machine);
        return distinct_gpu_sets(topology);
      },
      nb::arg("machine"));
  m.def(
      "peer_relays",
      [](const Machine& machine, const std::vector<int>& gpus) {
        Topology topology(machine);
        return peer_relays(topology, gpus);
      },
      nb::arg("machine"), nb::arg("gpus"));
  m.def(
      "even_host_rate",
      [](const Machine& machine, const std::vector<int>& gpus, Traffic direction, bool pageable) {
        Topology topology(machine);
        return even_host_rate(topology, gpus, direction, pageable);
      },
      nb::arg("machine"), nb::arg("gpus"), nb::arg("direction"), nb::arg("pageable") = false);
  m.def(
      "best_host_shares",
      [](const Machine& machine, const std::vector<int>& gpus, Traffic direction, bool pageable) {
        Topology topology(machine);
        return best_host_shares(topology, gpus, direction, pageable);
      },
      nb::arg("machine"), nb::arg("gpus"), nb::arg("direction"), nb::arg("pageable") = false);
  m.def(
      "host_relays",
      [](const Machine& machine, const std::vector<int>& gpus, Traffic direction, const HostShares& shares) {
        Topology topology(machine);
        return host_relays(topology, gpus, direction, shares);
      },
      nb::arg("machine"), nb::arg("gpus"), nb::arg("direction"), nb::arg("shares"));
}

void bind_sharing(nb::module_& m) {
  // For tests of the sharing rule alone: rates of flows over numbered resources.
  m.def(
      "fair_rates",
      [](const std::vector<Capacity>& capacities, const std::vector<std::vector<std::pair<int, double>>>& flows) {
        std::vector<Resource> resources;
        for (const Capacity& capacity : capacities) resources.push_back({"", capacity});
        std::vector<std::vector<Use>> uses;
        for (const auto& flow : flows) {
          uses.emplace_back();
          for (const auto& [resource, weight] : flow) uses.back().push_back({resource, weight});
        }
        std::vector<const std::vector<Use>*> pointers;
        for (const auto& use : uses) pointers.push_back(&use);
        return fair_rates(resources, pointers);
      },
      nb::arg("capacities"), nb::arg("flows"), "The max-min fair rates of flows, each a list of (resource, weight).");
}

}  // namespace

void bind_machine(nb::module_& m) {
  bind_nodes_and_links(m);
  bind_processors(m);
  bind_copies(m);
  bind_machine_itself(m);
  bind_places(m);
  bind_routes(m);
  bind_collectives(m);
  bind_gpu_sets(m);
  bind_sharing(m);
}

}  // namespace linkwise::binding
