// The applications on proactive regions, the microbenchmark, and mappings.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "../../apps/app.hpp"
#include "../../apps/samples.hpp"
#include "bindings.hpp"
#include "linkwise/transfer/proactive/mapping.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/tuned_plans.hpp"
#include "linkwise/transfer/proactive/tuner.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using namespace apps;
using proactive::AgentPlan;

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Cuts = std::vector<std::uint64_t>;

void bind_apps_themselves(nb::module_& m) {
  nb::class_<App>(m, "App")
      .def("run", &App::run, nb::arg("iterations"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "fetch",
          [](App& self, int gpu, const nb::ndarray<nb::c_contig, nb::device::cpu>& to) {
            self.fetch(gpu, to.data(), to.nbytes());
          },
          nb::arg("gpu"), nb::arg("to"))
      .def("set_plan", &App::set_plan, nb::arg("plan"))
      .def("set_sends", &App::set_sends, nb::arg("sends"))
      .def("wait", &App::wait, nb::call_guard<nb::gil_scoped_release>());
}

/// The rows of a sparse matrix; without arrays, only its size.
struct MatrixArrays {
  std::uint64_t rows, columns, entries;
  std::optional<Column<std::uint64_t>> first;
  std::optional<Column<std::uint32_t>> column;
  std::optional<Column<float>> value;

  [[nodiscard]] SparseRows get() const {
    return {rows,
            columns,
            entries,
            first ? first->data() : nullptr,
            column ? column->data() : nullptr,
            value ? value->data() : nullptr};
  }
};

template <typename T>
const T* data_of(const std::optional<Column<T>>& column) {
  return column ? column->data() : nullptr;
}

void bind_makers(nb::module_& m) {
  nb::class_<MatrixArrays>(m, "MatrixArrays")
      .def(
          "__init__",
          [](MatrixArrays* self, std::uint64_t rows, std::uint64_t columns, std::uint64_t entries,
             std::optional<Column<std::uint64_t>> first, std::optional<Column<std::uint32_t>> column,
             std::optional<Column<float>> value) {
            new (self) MatrixArrays{rows, columns, entries, std::move(first), std::move(column), std::move(value)};
          },
          nb::arg("rows"), nb::arg("columns"), nb::arg("entries"), nb::arg("first") = nb::none(),
          nb::arg("column") = nb::none(), nb::arg("value") = nb::none());
  m.def(
      "make_jacobi",
      [](Runtime& runtime, std::vector<int> gpus, Cuts cuts, AgentPlan plan, std::uint64_t rows, int band,
         const std::optional<Column<double>>& diagonals, const std::optional<Column<double>>& right_side,
         bool replicate) {
        return make_jacobi({runtime, std::move(gpus), std::move(cuts), plan},
                           {rows, band, data_of(diagonals), data_of(right_side), replicate});
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("cuts"), nb::arg("plan"), nb::arg("rows"), nb::arg("band"),
      nb::arg("diagonals") = nb::none(), nb::arg("right_side") = nb::none(), nb::arg("replicate") = true,
      nb::keep_alive<0, 1>());
  m.def(
      "make_pagerank",
      [](Runtime& runtime, std::vector<int> gpus, Cuts cuts, AgentPlan plan, const MatrixArrays& incoming,
         const std::optional<Column<float>>& inverse_degrees, float damping) {
        return make_pagerank({runtime, std::move(gpus), std::move(cuts), plan}, incoming.get(),
                             data_of(inverse_degrees), damping);
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("cuts"), nb::arg("plan"), nb::arg("incoming"),
      nb::arg("inverse_degrees") = nb::none(), nb::arg("damping") = 0.85F, nb::keep_alive<0, 1>());
  m.def(
      "make_sssp",
      [](Runtime& runtime, std::vector<int> gpus, Cuts cuts, AgentPlan plan, const MatrixArrays& incoming,
         std::uint32_t source) {
        return make_sssp({runtime, std::move(gpus), std::move(cuts), plan}, incoming.get(), source);
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("cuts"), nb::arg("plan"), nb::arg("incoming"), nb::arg("source"),
      nb::keep_alive<0, 1>());
  m.def(
      "make_als",
      [](Runtime& runtime, std::vector<int> gpus, Cuts user_cuts, Cuts item_cuts, AgentPlan plan,
         const MatrixArrays& by_user, const MatrixArrays& by_item, float step, float decay,
         const std::optional<Column<float>>& factors) {
        return make_als({runtime, std::move(gpus), std::move(user_cuts), plan}, std::move(item_cuts),
                        {by_user.get(), by_item.get(), data_of(factors), step, decay});
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("user_cuts"), nb::arg("item_cuts"), nb::arg("plan"),
      nb::arg("by_user"), nb::arg("by_item"), nb::arg("step"), nb::arg("decay"), nb::arg("factors") = nb::none(),
      nb::keep_alive<0, 1>());
  m.def(
      "make_xray_ct",
      [](Runtime& runtime, std::vector<int> gpus, Cuts pixel_cuts, Cuts ray_cuts, AgentPlan plan, int size, int views,
         int detectors, float step, float smoothing, const std::optional<Column<float>>& measured) {
        return make_xray_ct({runtime, std::move(gpus), std::move(pixel_cuts), plan}, std::move(ray_cuts),
                            {size, views, detectors, data_of(measured), step, smoothing});
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("pixel_cuts"), nb::arg("ray_cuts"), nb::arg("plan"), nb::arg("size"),
      nb::arg("views"), nb::arg("detectors"), nb::arg("step"), nb::arg("smoothing"), nb::arg("measured") = nb::none(),
      nb::keep_alive<0, 1>());
  m.def(
      "make_synthetic",
      [](Runtime& runtime, std::vector<int> gpus, AgentPlan plan, std::uint64_t bytes, int steps, double seconds) {
        return make_synthetic({runtime, std::move(gpus), {}, plan}, {bytes, steps, seconds});
      },
      nb::arg("runtime"), nb::arg("gpus"), nb::arg("plan"), nb::arg("bytes"), nb::arg("steps"), nb::arg("seconds") = 0,
      nb::keep_alive<0, 1>());
  m.def("synthetic_word", &synthetic_word, nb::arg("i"), nb::arg("iteration"), nb::arg("steps"));
}

void bind_samples(nb::module_& m) {
  m.def("dry_run_of_scatter", &dry_run_of_scatter, nb::arg("runtime"), nb::arg("blocks"), nb::arg("count"),
        nb::arg("said"));
  m.def("pages_of_scatter", &pages_of_scatter, nb::arg("blocks"), nb::arg("count"));
  m.def("run_scatter", &run_scatter, nb::arg("runtime"), nb::arg("agent"), nb::arg("blocks"), nb::arg("count"));
  m.def("run_triples", &run_triples, nb::arg("runtime"), nb::arg("agent"), nb::arg("count"));
  m.def("run_wrong_producer", &run_wrong_producer, nb::arg("runtime"), nb::arg("what"), nb::arg("agent"));
  m.def("senders_of", &senders_of, nb::arg("runtime"), nb::arg("plan"));
  m.def("run_slow_producer", &run_slow_producer, nb::arg("runtime"), nb::arg("agent"), nb::arg("seconds"),
        nb::arg("patience"));
  m.def(
      "chunks_of_ranges",
      [](std::uint64_t region_bytes, proactive::ByteRange all, const std::vector<proactive::ByteRange>& of_blocks,
         std::uint64_t chunk_bytes, bool grow) {
        const auto mapping = proactive::Mapping::of(static_cast<std::uint32_t>(of_blocks.size()), region_bytes, all,
                                                    [&](std::uint32_t block) { return std::vector{of_blocks[block]}; });
        const auto chunks =
            grow ? proactive::Chunks::growing(all, chunk_bytes) : proactive::Chunks::uniform(all, chunk_bytes);
        const proactive::Lists lists = mapping.chunks_of_blocks(chunks);
        std::vector<std::vector<std::uint32_t>> of;
        for (std::uint32_t block = 0; block < lists.count(); ++block)
          of.emplace_back(lists.of(block).begin(), lists.of(block).end());
        return std::pair(chunks.bounds, of);
      },
      nb::arg("region_bytes"), nb::arg("all"), nb::arg("of_blocks"), nb::arg("chunk_bytes"), nb::arg("grow"));
}

}  // namespace

void bind_apps(nb::module_& m) {
  nb::enum_<proactive::Agent>(m, "Agent")
      .value("bulk", proactive::Agent::bulk)
      .value("memcpy", proactive::Agent::memcpy)
      .value("inline", proactive::Agent::inline_)
      .value("polling", proactive::Agent::polling)
      .value("dynamic", proactive::Agent::dynamic)
      .value("copy_engine", proactive::Agent::copy_engine)
      .value("unified", proactive::Agent::unified)
      .value("hardware", proactive::Agent::hardware)
      .value("infinite", proactive::Agent::infinite);
  nb::enum_<proactive::Sends>(m, "Sends")
      .value("chunks", proactive::Sends::chunks)
      .value("nothing", proactive::Sends::nothing)
      .value("unordered", proactive::Sends::unordered);
  nb::class_<AgentPlan>(m, "AgentPlan")
      .def(
          "__init__",
          [](AgentPlan* self, const std::string& agent, std::uint64_t chunk_bytes, int threads) {
            new (self) AgentPlan{proactive::agent_from(agent), chunk_bytes, threads};
          },
          nb::arg("agent") = "polling", nb::arg("chunk_bytes") = AgentPlan{}.chunk_bytes,
          nb::arg("threads") = AgentPlan{}.threads)
      .def_ro("agent", &AgentPlan::agent)
      .def_ro("chunk_bytes", &AgentPlan::chunk_bytes)
      .def_ro("threads", &AgentPlan::threads)
      .def_prop_ro("has_chunks", [](const AgentPlan& self) { return is_decoupled(self.agent); })
      .def_prop_ro("has_threads", [](const AgentPlan& self) { return has_threads(self.agent); })
      .def("__str__", &AgentPlan::to_string);
  nb::class_<proactive::TunedPlans>(m, "TunedPlans")
      .def(nb::init<>())
      .def(nb::init<std::filesystem::path>(), nb::arg("file"))
      .def_prop_ro("file", &proactive::TunedPlans::file)
      .def("find", &proactive::TunedPlans::find, nb::arg("kernel"))
      .def("keep", &proactive::TunedPlans::keep, nb::arg("kernel"), nb::arg("plan"));
  m.def(
      "tuned_plan",
      [](const std::string& kernel, const std::function<double(const AgentPlan&)>& seconds,
         const proactive::TunedPlans& kept) { return proactive::tuned_plan(kernel, seconds, {}, kept); },
      nb::arg("kernel"), nb::arg("seconds"), nb::arg("kept"));
  m.def(
      "tune_agents",
      [](const std::vector<std::string>& agents, bool exhaustive,
         const std::function<double(const AgentPlan&)>& seconds) {
        proactive::TuningSpace space{.exhaustive = exhaustive};
        space.agents.clear();
        for (const std::string& agent : agents) space.agents.push_back(proactive::agent_from(agent));
        std::vector<std::pair<AgentPlan, double>> tried;
        for (const proactive::Tried& each : tune(space, seconds)) tried.emplace_back(each.plan, each.seconds);
        return tried;
      },
      nb::arg("agents"), nb::arg("exhaustive"), nb::arg("seconds"));
  m.def("seconds_of_work", &proactive::seconds_of_work, nb::arg("runtime"),
        "Seconds from the first start to the last end since the last clear_timeline. Blocks.");
  bind_apps_themselves(m);
  bind_makers(m);
  bind_samples(m);
}

}  // namespace linkwise::binding
