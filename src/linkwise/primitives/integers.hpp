// Columns of integers, whose type is known at run time, for host and device alike.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// The integer's value, extended to 64 bits.
LINKWISE_BOTH inline std::uint64_t integer_at(const void* values, IntegerType type, std::uint64_t i) {
  if (type.bytes == 8) return static_cast<const std::uint64_t*>(values)[i];
  if (type.is_signed) return static_cast<std::uint64_t>(static_cast<const std::int32_t*>(values)[i]);
  return static_cast<const std::uint32_t*>(values)[i];
}

/// The integer's order-preserving code: see CodeRange.
LINKWISE_BOTH inline std::uint64_t code_at(const void* values, IntegerType type, std::uint64_t i) {
  return integer_at(values, type, i) ^ (type.is_signed ? std::uint64_t{1} << 63 : 0);
}

/// Appends the integer of row i to a packed key.
LINKWISE_BOTH inline std::uint64_t packed(std::uint64_t key, const Packing& packing, const void* column,
                                          std::uint64_t i) {
  const std::uint64_t code = code_at(column, packing.type, i) - packing.least;
  return packing.is_first || packing.bits == 64 ? code : key << packing.bits | code;
}

}  // namespace linkwise
