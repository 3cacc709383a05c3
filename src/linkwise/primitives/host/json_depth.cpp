#include "linkwise/primitives/host/json_depth.hpp"

#include <algorithm>

namespace linkwise {

std::uint64_t json_depth(std::string_view text) {
  std::uint64_t depth = 0, deepest = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at)
          if (text[at] == '\\') ++at;
        break;
      case '{':
      case '[': deepest = std::max(deepest, ++depth); break;
      case '}':
      case ']': depth -= depth > 0 ? 1 : 0; break;
      default: break;
    }
  }
  return deepest;
}

}  // namespace linkwise
