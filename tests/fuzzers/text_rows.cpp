// Rows of text: they are the whole text, each ends once, and the end of the last whole row is where parts say it is.
#include "linkwise/primitives/host/text_rows.hpp"

#include <cstdlib>
#include <cstring>

#include "driver.hpp"

using namespace linkwise;

std::vector<std::string> seeds() {
  return {"a,b\n1,2\n",    "\"x\"\"y\",\"line\nline\"\r\n3,4\r\n", "\xEF\xBB\xBF\"a\"\tb\n\n\n", "", "\"", "a\rb\rc",
          "x,\"\"\n\"\",y"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr char delimiters[] = {',', '\t', '\0', ';'};
  const char delimiter = delimiters[data[0] % 4];
  const bool keeps_blank = (data[0] & 4) != 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::uint64_t end = end_of_last_row(text, delimiter);
  if (end > text.size()) std::abort();
  const TextRows rows = rows_of_text(text, delimiter, keeps_blank);
  const auto* offsets = reinterpret_cast<const std::int64_t*>(rows.offsets.data());
  const char* letters = rows.letters ? reinterpret_cast<const char*>(rows.letters->data()) : text.data();
  std::string together;
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    if (offsets[row] >= offsets[row + 1]) std::abort();
    together.append(letters + offsets[row], static_cast<std::size_t>(offsets[row + 1] - offsets[row]));
  }
  // Nothing is lost but blank lines and, at the end, nothing but an end is added.
  const auto without_ends = [](const std::string& of) {
    std::string kept;
    for (const char letter : of)
      if (letter != '\n' && letter != '\r') kept += letter;
    return kept;
  };
  if (without_ends(together) != without_ends(text)) std::abort();
  return 0;
}
