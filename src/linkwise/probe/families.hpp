// The full probe: families of measurements beyond those that the quick probe makes.
//
// The union of Comm|Scope's transfer benchmarks (commscope19 §2-4), Tartan's peer-to-peer and collective ones (tartan20
// §3), sort22's concurrent ones (§4) and PROACT's goodput by store size (proact21 fig. 2). Families that go through
// the runtime also run on virtual machines; those in probe/cuda/ need GPUs, and report it if there are none.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "linkwise/probe/prober.hpp"

namespace linkwise {

struct FamilyOptions {
  std::uint64_t largest = std::uint64_t{4} << 30;     ///< the largest size of a curve
  std::uint64_t bytes = 256 << 20;                    ///< per transfer, in families that do not vary the size
  double patience_seconds = 1;                        ///< for each measurement
  std::uint64_t pool_bytes = std::uint64_t{4} << 30;  ///< as in ProbeOptions
  std::string nccl;                                   ///< path of libnccl.so.2; empty: by the loader's search
};

/// What a family measures with, and the rows that it adds.
class FamilyContext {
 public:
  FamilyContext(Runtime& runtime, const Machine& fitted, const FamilyOptions& options, const HostPool* pool)
      : runtime(runtime), fitted(fitted), options(options), prober_(runtime, options.patience_seconds, pool) {}

  Runtime& runtime;
  const Machine& fitted;  ///< the quick probe's result, or the best description known
  const FamilyOptions& options;
  std::string family;  ///< the name of the family that is running
  std::vector<ProbeRow> rows;

  [[nodiscard]] int num_gpus() const { return runtime.machine().num_gpus(); }
  /// Measures, verifies and predicts a pattern of transfers, and adds a row for it.
  void transfers(const std::string& what, const std::vector<Transfer>& pattern);
  /// Adds a row for the time of each of many back-to-back copies of 4 bytes.
  void smallest_copy(const std::string& what, Place from, Place to);
  /// Adds a row for a measurement made elsewhere; `bytes` and GB/s are 0 for a cost.
  void add(const std::string& what, std::uint64_t bytes, Measurement measured);
  void cannot(const std::string& what, const std::string& why);

 private:
  Prober prober_;
};

struct ProbeFamily {
  std::string name;
  std::string what;  ///< a one-line description
  std::function<void(FamilyContext&)> measure;
};

/// Families that go through the runtime.
std::vector<ProbeFamily> transfer_families();
/// Families that call CUDA directly.
std::vector<ProbeFamily> cuda_families();

/// Names and descriptions of all families, in the order in which they run.
std::vector<std::pair<std::string, std::string>> family_names();

/// Runs the named families. A failure becomes a row that says why, except for the exceptions below.
/// @throws CorruptDataError if a link does not deliver what was sent; Cancelled.
std::vector<ProbeRow> measure_families(Runtime& runtime, const Machine& fitted, const std::vector<std::string>& names,
                                       const FamilyOptions& options);

}  // namespace linkwise
