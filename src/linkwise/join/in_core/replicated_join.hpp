// A side that is much shorter than the other goes to every GPU as a whole, and the other one stays where it lies.
//
// join25 exchanges and sorts both (§3); where one has a few rows for thousands of the other's, as the tables around a
// star's centre have, nearly all of that is work on rows that need not move.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"

namespace linkwise {

/// Whether the order of rows allows it, and it takes less time.
bool is_worth_replicating(const DeviceJoinInput& input);

/// The rows of an inner join, in the order of the longer side. @throws as join_device_rows.
std::vector<SortedPart> replicated_join_rows(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input);

}  // namespace linkwise
