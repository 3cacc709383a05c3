// Splitters from histograms of the most significant bits (join25 §3.1.2), to compare with those from samples.
//
// A histogram of the first eight bits cuts the keys into buckets. A bucket that a cut between two parts would have to
// split, by more than ε of a part, is a spanning bucket: it is refined by a histogram of the next eight bits of its
// keys, and so on until no bucket spans. What lies between two cuts is one part, so buckets are fused as far as parts
// are large (the paper's γ is one over the plan's buckets). The keys are only read; they move once, in the exchange.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/sort_plan.hpp"

namespace linkwise {

/// Codes, and a stream of the GPU that they lie on.
struct KeySource {
  Stream stream;
  MemoryView keys;
};

/// The `parts` - 1 cuts, rising; blocks until they are known. Nothing if a single key spans: samples can cut such a
/// bucket, by where its keys stand.
std::optional<std::vector<Cut>> msb_cuts(Runtime& runtime, KeyWidth width, std::span<const KeySource> sources,
                                         int parts);

/// Bytes that this takes on each GPU, if the plan wants it.
std::uint64_t msb_bytes(const SortPlan& plan, int parts);

}  // namespace linkwise
