#include "linkwise/join/join_kind.hpp"

#include "linkwise/error.hpp"

namespace linkwise {

JoinKind join_kind_from(const std::string& name) {
  static constexpr const char* names[] = {"inner", "left", "right", "full", "semi", "anti"};
  for (int kind = 0; kind < 6; ++kind)
    if (name == names[kind]) return static_cast<JoinKind>(kind);
  throw UsageError("there is no join '" + name + "'; how= is inner, left, right, full, semi or anti");
}

}  // namespace linkwise
