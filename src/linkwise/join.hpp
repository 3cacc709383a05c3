// Public header for joins: host columns with `join_totals`, `join_rows` and `join_ranges`; columns on the GPUs with
// `join_device_totals` and `join_device_rows`; and plans. Covers all six kinds of joins of two relations on one key.
//
// For runtimes, threads, streams, memory and errors, see linkwise/sort.hpp.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/join/device_join.hpp"
#include "linkwise/join/host_join.hpp"
#include "linkwise/plan/join_planner.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
