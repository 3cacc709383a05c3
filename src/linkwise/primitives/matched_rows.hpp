// Records what a probe row has matched, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/integers.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// Records that a probe row matches build rows [lower, upper): for the result, if wanted, and in `totals`.
LINKWISE_BOTH inline void note_matches(const RawProbe& probe, std::uint64_t row, std::uint64_t lower,
                                       std::uint64_t upper, MatchTotals& totals) {
  const std::uint64_t matches = upper - lower;
  if (probe.first != nullptr) {
    probe.first[row] = static_cast<std::uint32_t>(lower) | (matches == 0 ? unmatched_bit : 0);
    probe.emitted[row] = static_cast<std::uint32_t>(rows_emitted(probe.emission, matches));
  }
  if (matches == 0) return;
  totals.matches += matches;
  ++totals.matched_rows;
  if (probe.values != nullptr) totals.probe_sum += matches * integer_at(probe.values, probe.value_type, row);
  if (probe.build_sums != nullptr) totals.build_sum += probe.build_sums[upper] - probe.build_sums[lower];
}

}  // namespace linkwise
