// The door to sorting: host columns with `sort_host`, columns on the GPUs with `sort_device`, and plans for both.
//
// Where it runs: a `Runtime`. `proactive::open_gpus` opens all GPUs that CUDA shows, with assumed rates;
// `make_cuda_runtime` (device/cuda/cuda.hpp) those of a machine that was measured; `proactive::open_virtual_gpus` and
// `VirtualRuntime` simulate. Nothing is global: what a runtime holds it gives back when it goes, or on `trim()`.
//
// Threads: a runtime is used by one thread at a time; several runtimes of the same GPUs may be used by several threads.
// Calls block the host as their comments say.
//
// Streams: `sort_device` begins behind what the caller's streams hold, and each part of its result has an event that it
// is ready at; no other stream of the caller is waited for.
//
// Memory: inputs are only read unless they are donated. Results of `sort_device` are buffers of the runtime, which own
// their memory; `Runtime::retire` gives one back when what was enqueued has run. `Runtime::use_memory` has GPUs' memory
// come from an engine's pool instead of CUDA's allocator. Sizes are in bytes, rates in 10^9
// bytes a second, times in seconds.
//
// Errors are exceptions, all of them `linkwise::Error` (error.hpp): `UsageError` for what cannot be done as it is asked
// for, `OutOfMemoryError`, `DeviceError`, `CorruptDataError` where verification finds that the result is wrong.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/plan/sort_planner.hpp"
#include "linkwise/sort/device_sort.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
