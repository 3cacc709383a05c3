// The greatest total throughput of flows that share resources.
#pragma once

#include <vector>

namespace linkwise {

/// The x ≥ 0 with the greatest sum of elements subject to rows · x ≤ limits, for limits that are not negative: the
/// simplex method from the origin with Bland's rule, which cannot cycle.
std::vector<double> maximise_sum(std::vector<std::vector<double>> rows, std::vector<double> limits);

}  // namespace linkwise
