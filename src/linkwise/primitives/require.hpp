// Argument checks of the primitives.
#pragma once

#include <string>

#include "linkwise/error.hpp"

namespace linkwise {

inline void require(bool condition, const char* operation, const char* what) {
  if (!condition) throw ProgramError(std::string(operation) + ": " + what);
}

}  // namespace linkwise
