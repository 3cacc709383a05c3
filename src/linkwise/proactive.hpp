// The door to proactive transfers: arrays that several GPUs have (`Region`), whose chunks reach the others while the
// kernel that makes them still runs (`Producer`). docs/proactive.md goes through it; examples/proactive is a project to
// begin with.
//
// Kernels of one's own that make chunks are compiled by nvcc with linkwise/transfer/proactive/cuda/run_blocks.cuh, for
// the agent `dynamic` with -rdc=true. Runtimes, threads and errors: as linkwise/sort.hpp says.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/producer.hpp"
#include "linkwise/transfer/proactive/tuned_plans.hpp"
#include "linkwise/version.hpp"
