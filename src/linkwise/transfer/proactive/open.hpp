// Runtimes for programs that use regions and have no description of the machine.
#pragma once

#include <cstdint>
#include <memory>

#include "linkwise/device/runtime.hpp"

namespace linkwise::proactive {

/// All GPUs that CUDA shows. @throws DeviceError if there is none, saying why.
std::unique_ptr<Runtime> open_gpus();

/// Virtual GPUs, each linked to every other one. The CPU executes their work, in a different legal order for every
/// seed; races and waits that are never satisfied are errors; times are those of a simulated clock. The timeline is
/// kept until `clear_timeline`.
std::unique_ptr<Runtime> open_virtual_gpus(int gpus, std::uint64_t seed = 0);

/// Blocks until everything enqueued so far has run. Returns the time from the first start to the last end, measured
/// or simulated.
double seconds_of_work(Runtime& runtime);

}  // namespace linkwise::proactive
