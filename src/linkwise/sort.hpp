// Public header for sorting: host columns with `sort_host`, columns on the GPUs with `sort_device`, and plans for
// both.
//
// Where it runs: on a `Runtime`. `proactive::open_gpus` opens all GPUs that CUDA shows, with assumed rates;
// `make_cuda_runtime` (device/cuda/cuda.hpp) opens those of a measured machine; `proactive::open_virtual_gpus` and
// `VirtualRuntime` simulate. There is no global state: a runtime frees what it holds when it is destroyed, and unused
// memory on `trim()`.
//
// Threads: a runtime is used by one thread at a time; several runtimes of the same GPUs may be used by several threads.
// Calls block the host as their comments say.
//
// Streams: `sort_device` is stream-ordered after the work already queued on the streams of its input parts, and each
// part of its result has an event that marks it as ready; no other stream of the caller is waited for.
//
// Memory: inputs are only read unless they are donated. Results of `sort_device` are buffers of the runtime, which
// own their memory; `Runtime::retire` frees one after the work enqueued so far has run. `Runtime::use_memory` makes
// the runtime take GPU memory from an engine's pool instead of CUDA's allocator. Sizes are in bytes, rates in 10^9
// bytes a second, times in seconds.
//
// Errors are exceptions, all of them `linkwise::Error` (error.hpp): `UsageError` for impossible requests,
// `OutOfMemoryError`, `DeviceError`, and `CorruptDataError` if verification finds a wrong result.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/plan/sort_planner.hpp"
#include "linkwise/sort/device_sort.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
