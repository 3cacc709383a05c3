// How a kernel of a producer is run.
#pragma once

#include <cstdint>

#include "linkwise/transfer/proactive/outbox.hpp"
#include "linkwise/transfer/proactive/sending_task.hpp"

namespace linkwise::proactive {

/// How a kernel is to be run this time.
struct KernelRun {
  enum class Stores { local, peers, marks };
  Stores stores = Stores::local;
  Outbox outbox;
  int senders = 0;       ///< threads that the last block which writes a chunk launches to send it; 0: it only counts
  LaunchedTask sending;  ///< the task of these threads
  std::uint32_t chunks = 0;  ///< the most that they may have to send
  std::uint32_t first_block = 0, last_block = 0;
  std::uint32_t* marked_pages = nullptr;        ///< of a dry run
  std::uint64_t first_byte = 0, last_byte = 0;  ///< of a dry run: the range that the GPU is said to write
  bool only_loads = false;                      ///< loads the kernel onto the device, and does not run it
};

}  // namespace linkwise::proactive
