// Iterative programs over an array that all GPUs read and of which each writes a part: the workloads of proact21
// §IV-C.
//
// An app takes its data as host arrays, and keeps each GPU's part of it on that GPU. Without data (null pointers) it
// can only be priced on an estimating machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/proactive/agent.hpp"

namespace linkwise::apps {

/// The participating GPUs: gpus[g] writes the rows from `cuts[g]` up to, but not including, `cuts[g + 1]`.
struct Team {
  Runtime& runtime;
  std::vector<int> gpus;
  std::vector<std::uint64_t> cuts;
  proactive::AgentPlan plan;

  /// @throws UsageError unless there are GPUs and the cuts, one more than GPUs, increase strictly from 0 to `rows`.
  void check(std::uint64_t rows) const;
};

class App {
 public:
  App() = default;
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  virtual ~App() = default;

  /// Enqueues `iterations` iterations.
  virtual void run(int iterations) = 0;
  /// Copies one GPU's result to `to`, in the format that is documented for the app. Blocks.
  virtual void fetch(int gpu, void* to, std::uint64_t bytes) = 0;
  /// Changes the plan for the following iterations. Blocks. @throws UsageError if the machine has no such agent, or
  /// on a change to or from `unified`, which is fixed when an app is made.
  virtual void set_plan(const proactive::AgentPlan& plan) = 0;
  virtual void set_sends(proactive::Sends sends) = 0;
  /// Blocks until all enqueued work is done. @throws DeviceError if an agent gave up.
  virtual void wait() = 0;
};

/// A x = b by Jacobi's method [proact21 25] for a banded matrix: diagonals[d · rows + i] is A(i, i + d - band). The
/// result: x, doubles. With `replicate` every GPU gets all of x, as in the paper; otherwise only what its rows read.
struct BandedSystem {
  std::uint64_t rows = 0;
  int band = 0;  ///< diagonals on each side
  const double* diagonals = nullptr;
  const double* right_side = nullptr;
  bool replicate = true;
};
std::unique_ptr<App> make_jacobi(Team team, const BandedSystem& system);

/// A sparse matrix in CSR format, as a graph: each row lists the columns that it reads.
struct SparseRows {
  std::uint64_t rows = 0, columns = 0, entries = 0;
  const std::uint64_t* first = nullptr;  ///< row offsets: one more than there are rows
  const std::uint32_t* column = nullptr;
  const float* value = nullptr;
};
/// PageRank. The result: each vertex's rank divided by its out-degree, floats. Row v of `incoming` lists the edges
/// into v; `inverse_degrees`: 1 / out-degree of each vertex, 0 if it has no outgoing edges.
std::unique_ptr<App> make_pagerank(Team team, const SparseRows& incoming, const float* inverse_degrees, float damping);
/// Shortest paths by the Bellman-Ford method. The result: distances from `source`, floats; they are final after as
/// many iterations as the longest shortest path has edges.
std::unique_ptr<App> make_sssp(Team team, const SparseRows& incoming, std::uint32_t source);
/// Factorisation of a rating matrix. The result: the factors, 8 floats for each user and then for each item. An
/// iteration is a gradient step of the users with the items fixed, then one of the items with the users fixed.
struct Ratings {
  SparseRows by_user, by_item;
  const float* factors = nullptr;  ///< the initial factors, of users and then of items
  float step = 0, decay = 0;
};
std::unique_ptr<App> make_als(Team team, std::vector<std::uint64_t> item_cuts, const Ratings& ratings);

/// Parallel-beam tomography of an image of size × size: `views` angles over half a turn, each with `detectors`
/// detectors of one pixel's width.
/// Model-based: x ← max(0, x + step · (Aᵀ(y - A x) - smoothing · L x)). The result: the image, floats.
struct Sinogram {
  int size = 0, views = 0, detectors = 0;
  const float* measured = nullptr;  ///< [views][detectors]
  float step = 0, smoothing = 0;
};
std::unique_ptr<App> make_xray_ct(Team team, std::vector<std::uint64_t> view_cuts, const Sinogram& sinogram);

/// The microbenchmark of proact21 §IV-C: the team's first GPU generates `bytes` bytes, 4 KiB per block, with `steps`
/// steps of arithmetic for each 16 bytes, and all others need them. The result: 32-bit words, each a function of its
/// index and the iteration.
struct Synthetic {
  std::uint64_t bytes = 0;
  int steps = 0;
  double seconds = 0;  ///< duration of the kernel on the simulated clock
};
std::unique_ptr<App> make_synthetic(Team team, const Synthetic& synthetic);
/// Word i after iteration number `iteration`, counted from 1.
std::uint32_t synthetic_word(std::uint64_t i, std::uint32_t iteration, int steps);

}  // namespace linkwise::apps
