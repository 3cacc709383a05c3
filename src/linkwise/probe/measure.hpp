// How often a measurement is repeated, and which value is reported.
//
// Repeat at least three times, until the coefficient of variation is at most 2 % or the time limit is reached; report
// the median and the coefficient of variation. (Comm|Scope repeats until a second has passed, and reports the mean
// and the deviation of five such runs: commscope19 §2.2.)
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace linkwise {

struct Measurement {
  double seconds = 0;   ///< median (or mean, where said), from the first start to the last end
  double spread = 0;    ///< coefficient of variation
  double gb_per_s = 0;  ///< of all transfers together
  int repetitions = 0;
  bool verified = false;  ///< the received data was checked; false for estimates, which send nothing
};

/// One measurement, and what was measured.
struct ProbeRow {
  std::string name;  ///< "host to device", "device to device", …
  std::string what;  ///< "0,1,2", "0→3", …
  Measurement measured;
  double predicted_gb_per_s = 0;  ///< by the fitted machine; 0 where nothing is predicted
  bool fitted = false;            ///< part of the fit; otherwise it validates the fit
  std::uint64_t bytes = 0;        ///< of each transfer; 0 where there is none
  std::string why_not;            ///< why it could not be measured; empty if it was
};

/// `once` gives the seconds of one repetition.
Measurement measure_until_calm(double patience_seconds, const std::function<double()>& once);

/// The mean of a fixed number of repetitions, for repetitions that differ on purpose.
Measurement measure_mean(int repetitions, const std::function<double()>& once);

/// 4 B, 16 B, … up to `most` bytes.
std::vector<std::uint64_t> curve_sizes(std::uint64_t most);

}  // namespace linkwise
