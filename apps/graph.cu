// PageRank, and Bellman-Ford shortest paths: every vertex gathers from its in-neighbours.
#include <limits>

#include "graph.cuh"
#include "linkwise/error.hpp"

namespace linkwise::apps {
namespace {

using proactive::WholeBlock;

constexpr std::uint64_t heavy = 512;    // a vertex with more edges is processed by a whole block
constexpr double bytes_of_gather = 32;  // a sector for each random 4-byte read
// Vertices of different degrees finish at different times, so their stores are not combined into packets (proact21
// §V-B).
constexpr int bytes_of_store = 4;

template <typename Vertex>
struct GatherKernel {
  static constexpr int threads = 256;
  RowsOnGpu rows;
  const float* from;
  Vertex vertex;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(rows.begin, rows.end, Vertex::of_block);
    const auto make = [&](std::uint64_t v, const auto& threads_of_v) {
      const float made = vertex(v, rows, from, threads_of_v);
      if (threads_of_v.leads()) out.store(v, made);
    };
    const auto is_heavy = [&](std::uint64_t v) { return rows.entry(v + 1) - rows.entry(v) > heavy; };
    block.for_each_group<Vertex::group>(begin, end, [&](std::uint64_t v, const auto& threads_of_v) {
      if (!is_heavy(v)) make(v, threads_of_v);
    });
    if (!block.any(begin, end, is_heavy)) return;
    for (std::uint64_t v = begin; v < end; ++v)
      if (is_heavy(v)) make(v, WholeBlock());
  }
};

// `of_block`, the vertices per block: few enough that there are more blocks than run at once, so that chunks are
// ready early; enough that counting a finished block, which takes a microsecond, is a small part of its time.
struct RankVertex {
  static constexpr int group = 4;  // threads per vertex: most vertices have few edges
  static constexpr std::uint64_t of_block = 128;
  const float* inverse_degrees;  // of this GPU's vertices
  float jump, damping;

  template <typename Group>
  LINKWISE_HOST_DEVICE float operator()(std::uint64_t v, const RowsOnGpu& rows, const float* from,
                                        const Group& threads) const {
    const float sum =
        threads.sum(rows.entry(v), rows.entry(v + 1), 0.0F, [&](std::uint64_t e) { return from[rows.column[e]]; });
    return (jump + damping * sum) * inverse_degrees[v - rows.begin];
  }
};

struct DistanceVertex {
  static constexpr int group = 8;
  static constexpr std::uint64_t of_block = 256;
  template <typename Group>
  LINKWISE_HOST_DEVICE float operator()(std::uint64_t v, const RowsOnGpu& rows, const float* from,
                                        const Group& threads) const {
    return threads.min(rows.entry(v), rows.entry(v + 1), from[v],
                       [&](std::uint64_t e) { return from[rows.column[e]] + rows.value[e]; });
  }
};

template <typename Vertex>
class Gathering final : public App {
 public:
  using MakeVertex = std::function<Vertex(std::size_t g)>;

  Gathering(Team team, const SparseRows& incoming, bool has_weights)
      : team_(std::move(team)),
        values_(team_, incoming.rows, Vertex::of_block, "vertices"),
        rows_(team_, team_.cuts, incoming, has_weights),
        extra_(team_, "vertex data"),
        has_weights_(has_weights) {}

  Region<float>& vertices() { return values_.current(); }
  void set_vertex(MakeVertex vertex) { vertex_ = std::move(vertex); }
  Parts& extra() { return extra_; }
  [[nodiscard]] const Team& team() const { return team_; }

  void run(int iterations) override {
    for (int i = 0; i < iterations; ++i)
      values_.step(
          has_weights_ ? "sssp" : "pagerank",
          [&](std::size_t g, const float* from) { return GatherKernel<Vertex>{rows_.part(g), from, vertex_(g)}; },
          [&](std::size_t g) { return rows_.reads(g); },
          [&](std::size_t g) {
            const double of_entry = sizeof(std::uint32_t) + (has_weights_ ? sizeof(float) : 0) + bytes_of_gather;
            return KernelPrice{.memory_bytes = rows_.bytes(g, of_entry, 20), .store_bytes = bytes_of_store};
          });
  }
  void fetch(int gpu, void* to, std::uint64_t bytes) override { values_.current().fetch(gpu, to, bytes); }
  void set_plan(const AgentPlan& plan) override {
    values_.check(plan);
    team_.plan = plan;
    values_.follow_plan();
  }
  void set_sends(Sends sends) override { values_.set_sends(sends); }
  void wait() override { values_.wait(); }

 private:
  Team team_;
  Alternating<float> values_;
  DividedRows rows_;
  Parts extra_;
  MakeVertex vertex_;
  bool has_weights_;
  QuietEnd quiet_{team_.runtime};
};

}  // namespace

std::unique_ptr<App> make_pagerank(Team team, const SparseRows& incoming, const float* inverse_degrees, float damping) {
  team.check(incoming.rows);
  auto app = std::make_unique<Gathering<RankVertex>>(std::move(team), incoming, false);
  const Team& with = app->team();
  for (std::size_t g = 0; g < with.gpus.size(); ++g)
    app->extra().add(with.gpus[g], inverse_degrees == nullptr ? nullptr : inverse_degrees + with.cuts[g],
                     (with.cuts[g + 1] - with.cuts[g]) * sizeof(float));
  const float even = 1.0F / static_cast<float>(incoming.rows);
  app->vertices().fill_each([&](std::uint64_t v) { return even * inverse_degrees[v]; });
  app->set_vertex([degrees = &app->extra(), jump = (1 - damping) * even, damping](std::size_t g) {
    return RankVertex{degrees->data<float>(g), jump, damping};
  });
  return app;
}

std::unique_ptr<App> make_sssp(Team team, const SparseRows& incoming, std::uint32_t source) {
  team.check(incoming.rows);
  if (source >= incoming.rows)
    throw UsageError("there is no vertex " + std::to_string(source) + "; the graph has " +
                     std::to_string(incoming.rows));
  auto app = std::make_unique<Gathering<DistanceVertex>>(std::move(team), incoming, true);
  app->vertices().fill_each(
      [&](std::uint64_t v) { return v == source ? 0.0F : std::numeric_limits<float>::infinity(); });
  app->set_vertex([](std::size_t) { return DistanceVertex{}; });
  return app;
}

}  // namespace linkwise::apps
