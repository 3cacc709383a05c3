#include "linkwise/primitives/host/text_rows.hpp"

namespace linkwise {

std::uint64_t end_of_last_row(std::string_view text, char delimiter) {
  constexpr char quote = '"';
  std::uint64_t end = 0;
  bool begins_field = true, is_quoted = false;
  for (std::uint64_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (is_quoted) {
      if (letter != quote) continue;
      if (at + 1 < text.size() && text[at + 1] == quote) ++at;
      else is_quoted = false;
    } else if (letter == quote && begins_field) {
      is_quoted = true;
      begins_field = false;
    } else {
      const bool ends_alone = letter == '\r' && at + 1 < text.size() && text[at + 1] != '\n';
      if (letter == '\n' || ends_alone) end = at + 1;
      begins_field = letter == delimiter || letter == '\n' || letter == '\r';
    }
  }
  return end;
}

}  // namespace linkwise
