// The depth of JSON, against a count letter by letter.
#include "linkwise/primitives/host/json_depth.hpp"

#include <cstdlib>

#include "driver.hpp"

using namespace linkwise;

std::vector<std::string> seeds() {
  return {"{\"a\":[1,{\"b\":[[]]}]}\n",  "{\"a\":\"\\\"[{\",\"b\":{}}", "[[[[", "]]]]", "\"", "\"\\",
          "{\"x\":\"\\\\\"}\n{\"y\":[]}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::uint64_t depth = 0, deepest = 0;
  bool is_text = false, is_escaped = false;
  for (const char letter : text) {
    if (is_escaped) is_escaped = false;
    else if (is_text && letter == '\\') is_escaped = true;
    else if (letter == '"') is_text = !is_text;
    else if (!is_text && (letter == '{' || letter == '[')) deepest = ++depth > deepest ? depth : deepest;
    else if (!is_text && (letter == '}' || letter == ']') && depth > 0) --depth;
  }
  if (json_depth(text) != deepest) std::abort();
  return 0;
}
