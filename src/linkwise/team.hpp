// The number of threads of a parallel loop.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdlib>

namespace linkwise {

/// Threads of a parallel loop: OMP_NUM_THREADS if it is set, otherwise at most seven eighths of the processors. A
/// team waits for its last thread. With one thread on every processor and a submitter or an interpreter thread
/// besides, two threads share a processor, and the loop lasts as long as the scheduler makes one of them wait: on 64
/// processors, a loop of 0.1 ms took up to 16 ms with 64 threads and 0.2 ms with 48. The number is the same for every
/// loop, because OpenMP recreates its threads when it changes.
inline int team() {
  static const bool is_told = std::getenv("OMP_NUM_THREADS") != nullptr;
  const int all = omp_get_max_threads(), processors = omp_get_num_procs();
  return is_told ? all : std::min(all, processors - processors / 8);
}

/// `team()` if the loop is long enough to be worth waking other threads, otherwise 1.
inline int team_if(bool is_worthwhile) { return is_worthwhile ? team() : 1; }

}  // namespace linkwise
