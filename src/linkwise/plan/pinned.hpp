// Fields of a plan that the caller has chosen: the planner keeps them, and fails where it cannot.
#pragma once

#include <set>
#include <string>

namespace linkwise {

template <typename Plan>
struct Pinned {
  Plan values;                  ///< of the fields that are named
  std::set<std::string> names;  ///< as in visit_fields

  [[nodiscard]] bool has(const std::string& name) const { return names.contains(name); }

  void apply_to(Plan& plan) const {
    visit_fields(&values, [&](const char* name, auto member) {
      if (has(name)) plan.*member = values.*member;
    });
  }
};

}  // namespace linkwise
