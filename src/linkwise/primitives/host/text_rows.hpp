// Where rows of text with delimiters end: inside of quotes, which begin a field, a line goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "linkwise/primitives/host/huge_page_buffer.hpp"

namespace linkwise {

/// The position behind the last row that ends in a text which begins with a row; 0 if none does. Rows end with \n, \r\n
/// or \r, of which the last letter may be half an end. A quote that does not begin a field is one of its letters, and
/// two of them inside of quotes are one, as PyArrow's parser has it.
std::uint64_t end_of_last_row(std::string_view text, char delimiter);

/// The rows of a whole text as they are, one behind the other, each with its end.
struct TextRows {
  std::uint64_t count = 0;
  std::optional<HugePageBuffer> letters;  ///< none where they are the text itself
  HugePageBuffer offsets;                 ///< count + 1 of 64 bits
};
/// The last row gets an end if it has none; lines without a letter are rows only where `keeps_blank`. Parts of the text
/// are looked at side by side: each begins behind a line's end as if that ended a row, and is looked at again where it
/// did not.
/// Without a delimiter, 0, no letter is a quote, and every line is a row.
TextRows rows_of_text(std::string_view text, char delimiter, bool keeps_blank);

}  // namespace linkwise
