// The door to measuring: `quick_probe` measures a machine's links and processors in seconds, infers what ways its GPUs
// share, and returns the machine that plans are made for.
//
// Runtimes, threads and errors: as linkwise/sort.hpp says. Nothing else should use the GPUs meanwhile.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/probe/quick_probe.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
