#include "linkwise/machine/linear_program.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace linkwise {
namespace {

constexpr double nothing = 1e-9;

}  // namespace

std::vector<double> maximise_sum(std::vector<std::vector<double>> rows, std::vector<double> limits) {
  const std::size_t variables = rows.front().size(), constraints = rows.size();
  std::vector<double> gain(variables + constraints, 0);
  std::fill_n(gain.begin(), variables, 1.0);
  std::vector<std::size_t> basis;
  for (std::size_t r = 0; r < constraints; ++r) {
    rows[r].resize(variables + constraints, 0);
    rows[r][variables + r] = 1;
    basis.push_back(variables + r);
  }
  while (true) {
    const auto entering = std::ranges::find_if(gain, [](double g) { return g > nothing; });
    if (entering == gain.end()) break;
    const auto column = static_cast<std::size_t>(entering - gain.begin());
    std::size_t pivot = constraints;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < constraints; ++r) {
      if (rows[r][column] <= nothing) continue;
      const double ratio = limits[r] / rows[r][column];
      if (pivot == constraints || ratio < least - nothing || (ratio <= least + nothing && basis[r] < basis[pivot])) {
        pivot = r;
        least = std::min(least, ratio);
      }
    }
    const auto eliminate = [&](std::vector<double>& row, double factor) {
      for (std::size_t c = 0; c < row.size(); ++c) row[c] -= factor * rows[pivot][c];
    };
    const double scale = rows[pivot][column];
    for (double& value : rows[pivot]) value /= scale;
    limits[pivot] /= scale;
    for (std::size_t r = 0; r < constraints; ++r) {
      const double factor = rows[r][column];
      if (r == pivot || factor == 0) continue;
      eliminate(rows[r], factor);
      limits[r] -= factor * limits[pivot];
    }
    eliminate(gain, gain[column]);
    basis[pivot] = column;
  }
  std::vector<double> x(variables, 0);
  for (std::size_t r = 0; r < constraints; ++r)
    if (basis[r] < variables) x[basis[r]] = limits[r];
  return x;
}

}  // namespace linkwise
