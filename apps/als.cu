// Matrix factorisation: all users and all items alternately take a gradient step on the squared error.
#include "graph.cuh"
#include "linkwise/error.hpp"

namespace linkwise::apps {
namespace {

constexpr int rank = 8;
constexpr int of_row = 4;  // threads per row: they read neighbouring ratings, and blocks finish one after another
constexpr std::uint64_t rows_of_block = 64;

struct alignas(32) Factors {
  float of[rank] = {};

  LINKWISE_HOST_DEVICE friend Factors operator+(Factors a, const Factors& b) {
    for (int k = 0; k < rank; ++k) a.of[k] += b.of[k];
    return a;
  }
};

struct StepKernel {
  static constexpr int threads = of_row * rows_of_block;
  RowsOnGpu rows;
  const Factors* own;
  const Factors* others;
  float step, decay;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(rows.begin, rows.end, rows_of_block);
    block.for_each_group<of_row>(begin, end, [&](std::uint64_t row, const auto& threads_of_row) {
      Factors mine = own[row];
      const std::uint64_t first = rows.entry(row), last = rows.entry(row + 1);
      const Factors gradient = threads_of_row.sum(first, last, Factors{}, [&](std::uint64_t e) {
        Factors other = others[rows.column[e]];
        float error = rows.value[e];
        for (int k = 0; k < rank; ++k) error -= mine.of[k] * other.of[k];
        for (int k = 0; k < rank; ++k) other.of[k] *= error;
        return other;
      });
      if (!threads_of_row.leads()) return;
      const float length = first < last ? step / static_cast<float>(last - first) : 0;
      for (int k = 0; k < rank; ++k) mine.of[k] += length * gradient.of[k] - step * decay * mine.of[k];
      out.store(row, mine);
    });
  }
};

class Als final : public App {
 public:
  Als(Team team, std::vector<std::uint64_t> item_cuts, const Ratings& ratings)
      : users_of_(std::move(team)),
        items_of_{users_of_.runtime, users_of_.gpus, std::move(item_cuts), users_of_.plan},
        users_(users_of_, ratings.by_user.rows, rows_of_block, "users"),
        items_(items_of_, ratings.by_item.rows, rows_of_block, "items"),
        by_user_(users_of_, users_of_.cuts, ratings.by_user, true),
        by_item_(items_of_, items_of_.cuts, ratings.by_item, true),
        ratings_(ratings) {
    const Factors* factors = reinterpret_cast<const Factors*>(ratings.factors);
    users_.current().fill(factors, ratings.by_user.rows * sizeof(Factors));
    items_.current().fill(factors + ratings.by_user.rows, ratings.by_item.rows * sizeof(Factors));
  }

  void run(int iterations) override {
    for (int i = 0; i < iterations; ++i) {
      improve("users", users_, users_of_, by_user_, items_);
      improve("items", items_, items_of_, by_item_, users_);
    }
  }
  void fetch(int gpu, void* to, std::uint64_t bytes) override {
    const std::uint64_t of_users = ratings_.by_user.rows * sizeof(Factors);
    const std::uint64_t all = of_users + ratings_.by_item.rows * sizeof(Factors);
    if (bytes != all)
      throw UsageError("the factors take " + std::to_string(all) + " bytes, not " + std::to_string(bytes));
    users_.current().fetch(gpu, to, of_users);
    items_.current().fetch(gpu, static_cast<std::byte*>(to) + of_users, bytes - of_users);
  }
  void set_plan(const AgentPlan& plan) override {
    users_.check(plan);
    users_of_.plan = items_of_.plan = plan;
    users_.follow_plan();
    items_.follow_plan();
  }
  void set_sends(Sends sends) override {
    users_.set_sends(sends);
    items_.set_sends(sends);
  }
  void wait() override {
    users_.wait();
    items_.wait();
  }

 private:
  void improve(const std::string& name, Alternating<Factors>& side, const Team& team, const DividedRows& rows,
               Alternating<Factors>& other) {
    Region<Factors>& read = other.current();
    side.step(
        name,
        [&](std::size_t g, const Factors* own) {
          return StepKernel{rows.part(g), own, read.data(team.gpus[g]), ratings_.step, ratings_.decay};
        },
        [&](std::size_t g) {
          std::vector<MemoryView> reads = rows.reads(g);
          reads.push_back(read.mirror(team.gpus[g]));
          return reads;
        },
        [&](std::size_t g) {
          return KernelPrice{.memory_bytes = rows.bytes(g, 8 + 2 * sizeof(Factors), 16 + 2 * sizeof(Factors)),
                             .store_bytes = 4};
        });
  }

  Team users_of_, items_of_;
  Alternating<Factors> users_, items_;
  DividedRows by_user_, by_item_;
  Ratings ratings_;
  QuietEnd quiet_{users_of_.runtime};
};

}  // namespace

std::unique_ptr<App> make_als(Team team, std::vector<std::uint64_t> item_cuts, const Ratings& ratings) {
  team.check(ratings.by_user.rows);
  Team{team.runtime, team.gpus, item_cuts, team.plan}.check(ratings.by_item.rows);
  return std::make_unique<Als>(std::move(team), std::move(item_cuts), ratings);
}

}  // namespace linkwise::apps
