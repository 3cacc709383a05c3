// Replicated (broadcast) join: a side that is much shorter is copied to every GPU, and the other one stays in place.
//
// join25 exchanges and sorts both sides (§3). Where one has a few rows for thousands of the other's, like the
// dimension tables of a star schema, nearly all of that work is spent on rows that need not move.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"

namespace linkwise {

/// Whether replication is possible (an inner join with any row order) and expected to be faster.
bool is_worth_replicating(const DeviceJoinInput& input);

/// The rows of an inner join, in the order of the longer side. @throws as join_device_rows.
std::vector<SortedPart> replicated_join_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
