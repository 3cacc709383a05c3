// A runtime for programs that want regions, and have no description of a machine.
#pragma once

#include <cstdint>
#include <memory>

#include "linkwise/device/runtime.hpp"

namespace linkwise::proactive {

/// All GPUs that CUDA shows. @throws DeviceError if there is none, saying why.
std::unique_ptr<Runtime> open_gpus();

/// As many virtual GPUs, each joined to each: the CPU executes, in another legal order for every seed, races and waits
/// that nothing meets are errors, and a simulated clock tells the time. It remembers what ran until `clear_timeline`.
std::unique_ptr<Runtime> open_virtual_gpus(int gpus, std::uint64_t seed = 0);

/// When everything enqueued so far has run: from the first start to the last end, measured or simulated. Blocks.
double seconds_of_work(Runtime& runtime);

}  // namespace linkwise::proactive
