#include "linkwise/probe/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace linkwise {
namespace {

constexpr std::size_t least_repetitions = 3;
constexpr double calm = 0.02;  // a coefficient of variation that is low enough to stop

double variation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::reduce(values.begin(), values.end()) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean > 0 && n > 1 ? std::sqrt(squares / (n - 1)) / mean : 0;
}

}  // namespace

Measurement measure_until_calm(double patience_seconds, const std::function<double()>& once) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  Measurement measured;
  std::vector<double> seconds;
  do {
    seconds.push_back(once());
    measured.spread = variation(seconds);
  } while (seconds.size() < least_repetitions ||
           (measured.spread > calm && std::chrono::duration<double>(Clock::now() - began).count() < patience_seconds));
  measured.repetitions = static_cast<int>(seconds.size());
  std::ranges::sort(seconds);
  const std::size_t middle = seconds.size() / 2;
  measured.seconds = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return measured;
}

Measurement measure_mean(int repetitions, const std::function<double()>& once) {
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(once());
  return {std::reduce(seconds.begin(), seconds.end()) / repetitions, variation(seconds), 0, repetitions, false};
}

std::vector<std::uint64_t> curve_sizes(std::uint64_t most) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 4; size <= most; size *= 4) sizes.push_back(size);
  return sizes;
}

}  // namespace linkwise
