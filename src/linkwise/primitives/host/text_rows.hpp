// Finds where the rows of delimited text end: inside a quoted field, line ends do not end a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "linkwise/primitives/host/huge_page_buffer.hpp"

namespace linkwise {

/// The position after the last complete row of a text that begins with a row; 0 if there is none. Rows end with \n,
/// \r\n or \r; a \r at the end of the text does not count, as it may be half of \r\n. A quote that does not begin a
/// field is one of its characters, and two quotes inside quotes stand for one, as in PyArrow's parser.
std::uint64_t end_of_last_row(std::string_view text, char delimiter);

/// The rows of a whole text, unchanged and concatenated, each with its line end.
struct TextRows {
  std::uint64_t count = 0;
  std::optional<HugePageBuffer> letters;  ///< empty if they are the text itself
  HugePageBuffer offsets;                 ///< count + 1 of 64 bits
};
/// The last row gets the line end of the first if it has none; blank lines are rows only if `keeps_blank`. Parts of the
/// text are scanned in parallel: each begins after a line end, on the assumption that it ended a row, and is scanned
/// again if it did not. If the delimiter is 0, there are no quotes, and every line is a row.
TextRows rows_of_text(std::string_view text, char delimiter, bool keeps_blank);

}  // namespace linkwise
