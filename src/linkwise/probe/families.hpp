// What the full probe measures, family by family, on top of what the quick one needs.
//
// The union of Comm|Scope's transfer benchmarks (commscope19 §2-4), Tartan's peer-to-peer and collective ones (tartan20
// §3), sort22's concurrent ones (§4) and PROACT's goodput by store size (proact21 fig. 2). Families that go through the
// runtime run on virtual machines as well; those of probe/cuda/ need GPUs, and say so where there are none.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "linkwise/probe/prober.hpp"

namespace linkwise {

struct FamilyOptions {
  std::uint64_t largest = std::uint64_t{4} << 30;     ///< of the sizes that a curve goes through
  std::uint64_t bytes = 256 << 20;                    ///< of a transfer where the size does not matter
  double patience_seconds = 1;                        ///< for each measurement
  std::uint64_t pool_bytes = std::uint64_t{4} << 30;  ///< as of the quick probe
  std::string nccl;                                   ///< libnccl.so.2, or where it lies
};

/// What a family gets to measure with.
class FamilyContext {
 public:
  FamilyContext(Runtime& runtime, const Machine& fitted, const FamilyOptions& options, const HostPool* pool)
      : runtime(runtime), fitted(fitted), options(options), prober_(runtime, options.patience_seconds, pool) {}

  Runtime& runtime;
  const Machine& fitted;  ///< what the quick probe found, or the best that is known
  const FamilyOptions& options;
  std::string family;  ///< whose rows are added
  std::vector<ProbeRow> rows;

  [[nodiscard]] int num_gpus() const { return runtime.machine().num_gpus(); }
  /// Measures, verifies and predicts.
  void transfers(const std::string& what, const std::vector<Transfer>& pattern);
  /// What each of many copies of 4 bytes in a row takes.
  void smallest_copy(const std::string& what, Place from, Place to);
  /// A measurement made elsewhere. Bytes of one transfer; GB/s of all of them, 0 for a cost.
  void add(const std::string& what, std::uint64_t bytes, Measurement measured);
  void cannot(const std::string& what, const std::string& why);

 private:
  Prober prober_;
};

struct ProbeFamily {
  std::string name;
  std::string what;  ///< one line for people
  std::function<void(FamilyContext&)> measure;
};

/// Through the runtime.
std::vector<ProbeFamily> transfer_families();
/// With CUDA's own means.
std::vector<ProbeFamily> cuda_families();

/// Names and what they are, in the order in which they run.
std::vector<std::pair<std::string, std::string>> family_names();

/// Runs the named families. What fails says why in its row, but for wrong data.
/// @throws CorruptDataError if a link does not deliver what was sent; Cancelled.
std::vector<ProbeRow> measure_families(Runtime& runtime, const Machine& fitted, const std::vector<std::string>& names,
                                       const FamilyOptions& options);

}  // namespace linkwise
