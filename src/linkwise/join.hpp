// The door to joining: host columns with `join_totals`, `join_rows` and `join_ranges`; columns on the GPUs with
// `join_device_totals` and `join_device_rows`; and plans. All six kinds of joins of two relations by one key.
//
// Runtimes, threads, streams, memory and errors: as linkwise/sort.hpp says.
#pragma once

#include "linkwise/error.hpp"
#include "linkwise/join/device_join.hpp"
#include "linkwise/join/host_join.hpp"
#include "linkwise/plan/join_planner.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/version.hpp"
