// Where rows of text with delimiters end: inside of quotes, which begin a field, a line goes on.
#pragma once

#include <cstdint>
#include <string_view>

namespace linkwise {

/// The position behind the last row that ends in a text which begins with a row; 0 if none does. Rows end with \n, \r\n
/// or \r, of which the last letter may be half an end. A quote that does not begin a field is one of its letters, and two of them inside of
/// quotes are one, as PyArrow's parser has it.
std::uint64_t end_of_last_row(std::string_view text, char delimiter);

}  // namespace linkwise
