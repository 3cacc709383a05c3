// Programs that iterate over an array which all GPUs read and each writes a part of: the workloads of proact21 §IV-C.
//
// An app takes its data as host arrays, and keeps what belongs to a GPU's part there. Without data (null pointers) it
// can be priced on an estimating machine, and nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::apps {

/// Who takes part: row `cuts[g]` to `cuts[g + 1]` is written by gpus[g].
struct Team {
  Runtime& runtime;
  std::vector<int> gpus;
  std::vector<std::uint64_t> cuts;
  proactive::AgentPlan plan;

  /// @throws UsageError unless the cuts rise from 0 to `rows`, one more than there are GPUs.
  void check(std::uint64_t rows) const;
};

class App {
 public:
  App() = default;
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  virtual ~App() = default;

  /// Enqueues so many iterations.
  virtual void run(int iterations) = 0;
  /// What one GPU then has, as the app says; blocks.
  virtual void fetch(int gpu, void* to, std::uint64_t bytes) = 0;
  /// From now on, another plan; blocks. @throws UsageError if the machine has no such agent, or for `unified`, which an
  /// app is made with.
  virtual void set_plan(const proactive::AgentPlan& plan) = 0;
  virtual void set_sends(proactive::Sends sends) = 0;
  /// Blocks until all is done. @throws DeviceError if an agent gave up.
  virtual void wait() = 0;
};

/// A x = b by Jacobi's method [proact21 25] for a banded matrix: diagonals[d · rows + i] is A(i, i + d - band). The
/// result: x, doubles. With `replicate` every GPU gets all of x, as in the paper, and not only what its rows touch.
struct BandedSystem {
  std::uint64_t rows = 0;
  int band = 0;  ///< diagonals on each side
  const double* diagonals = nullptr;
  const double* right_side = nullptr;
  bool replicate = true;
};
std::unique_ptr<App> make_jacobi(Team team, const BandedSystem& system);

/// A sparse matrix by rows, as the graph of what each row reads.
struct SparseRows {
  std::uint64_t rows = 0, columns = 0, entries = 0;
  const std::uint64_t* first = nullptr;  ///< of each row, and one more
  const std::uint32_t* column = nullptr;
  const float* value = nullptr;
};
/// Rank over out-degree of each vertex, floats; `inverse_degrees` of the out-degrees, 0 where there is none. Rows: the
/// edges that come in.
std::unique_ptr<App> make_pagerank(Team team, const SparseRows& incoming, const float* inverse_degrees, float damping);
/// Distances from a vertex by Bellman and Ford's method, floats; after as many iterations as the longest path has
/// edges.
std::unique_ptr<App> make_sssp(Team team, const SparseRows& incoming, std::uint32_t source);
/// Factors of a matrix of ratings, 8 floats for each user and then for each item: users are improved by a gradient step
/// while items stand still, then items likewise.
struct Ratings {
  SparseRows by_user, by_item;
  const float* factors = nullptr;  ///< to begin with, of users and then of items
  float step = 0, decay = 0;
};
std::unique_ptr<App> make_als(Team team, std::vector<std::uint64_t> item_cuts, const Ratings& ratings);

/// Parallel-beam tomography: `views` over half a turn, `detectors` of one pixel's width each, of an image of
/// size × size. Model-based: x ← max(0, x + step · (Aᵀ(y - A x) - smoothing · L x)). The result: the image, floats.
struct Sinogram {
  int size = 0, views = 0, detectors = 0;
  const float* measured = nullptr;  ///< [views][detectors]
  float step = 0, smoothing = 0;
};
std::unique_ptr<App> make_xray_ct(Team team, std::vector<std::uint64_t> view_cuts, const Sinogram& sinogram);

/// The microbenchmark of proact21 §IV-C: GPU 0 makes `bytes`, 4 KiB a block, by so many steps of arithmetic, and all
/// others need them. The result: 32-bit words, word i a function of i and of the iteration.
struct Synthetic {
  std::uint64_t bytes = 0;
  int steps = 0;
  double seconds = 0;  ///< that the kernel takes on the simulated clock
};
std::unique_ptr<App> make_synthetic(Team team, const Synthetic& synthetic);
/// Word i after the n-th iteration, from 1 on.
std::uint32_t synthetic_word(std::uint64_t i, std::uint32_t iteration, int steps);

}  // namespace linkwise::apps
