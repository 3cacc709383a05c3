// Public header for measuring: `quick_probe` measures the links and processors of a machine in seconds, infers which
// paths its GPUs share, and returns the machine description that the planners use.
//
// For runtimes, threads and errors, see linkwise/sort.hpp. Nothing else should use the GPUs while it runs.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/probe/quick_probe.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
