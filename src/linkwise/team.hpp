// How many cores work on one parallel loop.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdlib>

namespace linkwise {

/// Threads of a parallel loop: as OMP_NUM_THREADS says, or an eighth less than there are processors. A team waits for
/// its last thread; if every processor has one of them, and there is a submitter or an interpreter as well, two share a
/// processor, and the loop takes as long as the scheduler lets one wait: of 64, a loop of 0.1 ms took up to 16 ms with
/// all and 0.2 ms with 48. It is the same number for every loop, because OpenMP makes its threads anew when it changes.
inline int team() {
  static const bool is_told = std::getenv("OMP_NUM_THREADS") != nullptr;
  const int all = omp_get_max_threads(), processors = omp_get_num_procs();
  return is_told ? all : std::min(all, processors - processors / 8);
}

/// That of a loop which may be too short for waking others.
inline int team_if(bool is_worthwhile) { return is_worthwhile ? team() : 1; }

}  // namespace linkwise
