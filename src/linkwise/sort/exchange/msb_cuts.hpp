// Splitters from histograms of the most significant bits (join25 §3.1.2), for comparison with those from samples.
//
// A histogram of the first eight bits cuts the keys into buckets. A bucket that a cut between two parts would have to
// split, by more than ε of a part, is a spanning bucket: it is refined by a histogram of the next eight bits of its
// keys, and so on until no bucket spans. All buckets between two cuts form one part, so they are fused up to the size
// of a part (the paper's γ is one over the plan's buckets). The keys are only read; they move once, in the exchange.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Codes, and a stream of the GPU that has them.
struct KeySource {
  Stream stream;
  MemoryView keys;
};

/// The `parts` - 1 cuts in ascending order; blocks until they are known. Returns nothing if a bucket of equal keys
/// spans: samples can split it, by the positions of its keys.
std::optional<std::vector<Cut>> msb_cuts(Runtime& runtime, KeyWidth width, std::span<const KeySource> sources,
                                         int parts);

/// Bytes of the histogram on each GPU; 0 unless the plan uses MSB histograms.
std::uint64_t msb_bytes(const SortPlan& plan, int parts);

}  // namespace linkwise
