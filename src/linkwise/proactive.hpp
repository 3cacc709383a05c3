// Public header for proactive transfers: arrays mirrored on several GPUs (`Region`), whose chunks are sent to the
// peers while the kernel that produces them still runs (`Producer`). docs/proactive.md is a walkthrough;
// examples/proactive is a starter project.
//
// Custom producer kernels are compiled by nvcc with linkwise/transfer/proactive/cuda/run_blocks.cuh; for the agent
// `dynamic`, add -rdc=true. For runtimes, threads and errors, see linkwise/sort.hpp.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/producer.hpp"
#include "linkwise/transfer/proactive/tuned_plans.hpp"
#include "linkwise/version.hpp"
