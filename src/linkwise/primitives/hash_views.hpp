// Turns the sides and columns of hash joins into what kernels take, and checks them.
#pragma once

#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/primitives/require.hpp"
#include "linkwise/primitives/views.hpp"

namespace linkwise {

inline RawHashSide raw(const HashSide& side) {
  return {side.keys.data,
          pointer<const void>(side.values),
          side.value_type,
          side.rows(),
          side.first_row,
          side.are_hashes,
          key_class(side.key_type) == KeyClass::floating,
          pointer<const std::uint64_t>(side.begin)};
}

inline RawHashColumn raw(const HashColumn& column) { return {pointer<void>(column.to), column.bytes}; }

inline void check(const HashSide& side, const char* operation) {
  require(!is_narrow(side.key_type) && side.keys.bytes % static_cast<std::uint64_t>(side.width()) == 0, operation,
          "whole keys of 4 or 8 bytes");
  require(
      side.values.bytes == 0 || side.values.bytes == side.rows() * static_cast<std::uint64_t>(side.value_type.bytes),
      operation, "a value for each row");
}

inline void check(const HashColumn& column, const char* operation) {
  require(column.bytes == 4 || column.bytes == 8, operation, "numbers of 4 or 8 bytes");
  require(column.to.bytes % static_cast<std::uint64_t>(column.bytes) == 0, operation, "whole numbers");
}

}  // namespace linkwise
