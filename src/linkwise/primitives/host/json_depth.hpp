// How deeply JSON values are nested: parsers recurse into them, and a stack is finite.
#pragma once

#include <cstdint>
#include <string_view>

namespace linkwise {

/// The most brackets and braces that are open at once in a text of JSON values, outside of strings.
std::uint64_t json_depth(std::string_view text);

}  // namespace linkwise
