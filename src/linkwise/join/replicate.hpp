// Copies a side of a join to every GPU in full.
#pragma once

#include <span>

#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// `copies[g]`: memory on GPU g for all records of the side, with its values or without any, which are copied there
/// in the order of the whole side. Stream g is on the GPU that has part g of the side.
void replicate(Runtime& runtime, Router& router, std::span<const Stream> streams, const DeviceSide& side,
               std::span<const Records> copies);

}  // namespace linkwise
