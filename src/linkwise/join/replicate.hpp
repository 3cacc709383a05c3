// A side of a join, brought to every GPU as a whole.
#pragma once

#include <span>

#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// `copies[g]`: on GPU g, as many records as the side has, with the side's values or without any; the side's records
/// come there in the order of the whole. The streams' GPUs are those that the side lies on.
void replicate(Runtime& runtime, Router& router, std::span<const Stream> streams, const DeviceSide& side,
               std::span<const Records> copies);

}  // namespace linkwise
