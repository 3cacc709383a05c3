// What the programs here say of what does not hold: a line each, and at the end how many.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what.c_str());
}

template <typename Error>
void expect_error(const std::string& told, const std::function<void()>& action) {
  try {
    action();
    expect(false, "an error that says '" + told + "'");
  } catch (const Error& error) {
    const std::string what = error.what();
    expect(what.find(told) != std::string::npos, "'" + told + "' in '" + what + "'");
  }
}

inline void tell_failures() { std::printf("%d failures\n", failures); }
