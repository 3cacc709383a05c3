// What several flows that share resources can carry together at most.
#pragma once

#include <vector>

namespace linkwise {

/// The x ≥ 0 of the greatest sum with rows · x ≤ limits, none of which is negative: the simplex method from the origin,
/// by Bland's rule, which cannot cycle.
std::vector<double> maximise_sum(std::vector<std::vector<double>> rows, std::vector<double> limits);

}  // namespace linkwise
