// Headers of Parquet pages: whatever the bytes, they are a header, are too short for one, or are refused. A header is
// not longer than its bytes, and fewer of these are too short for it.
#include "linkwise/primitives/host/parquet_pages.hpp"

#include <cstdlib>

#include "driver.hpp"
#include "linkwise/error.hpp"

using namespace linkwise;

std::vector<std::string> seeds() {
  const auto of = [](std::initializer_list<int> bytes) { return std::string(bytes.begin(), bytes.end()); };
  return {
      of({0x15, 0x00, 0x15, 0x90, 0x01, 0x15, 0x80, 0x01, 0x2c, 0x15, 0xc8, 0x01, 0x15, 0x00, 0x15, 0x06,
          0x15, 0x06, 0x1c, 0x18, 0x02, 'a',  'b',  0x18, 0x01, 'a',  0x16, 0x00, 0x00, 0x00, 0x00}),
      of({0x15, 0x04, 0x15, 0x20, 0x15, 0x24, 0x4c, 0x15, 0x08, 0x15, 0x00, 0x12, 0x00, 0x00}),
      of({0x15, 0x06, 0x15, 0x40, 0x15, 0x40, 0x5c, 0x15, 0x10, 0x15, 0x02,
          0x15, 0x10, 0x15, 0x10, 0x15, 0x04, 0x15, 0x00, 0x11, 0x00, 0x00}),
      of({0x19, 0xfc, 0x03, 0x19, 0x15, 0x01, 0x00, 0x1b, 0x00, 0x00}),
  };
}

namespace {

std::optional<ParquetPage> read(const std::vector<std::uint8_t>& bytes) {
  try {
    return parquet_page(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> bytes(data, data + size);
  const auto page = read(bytes);
  if (!page) return 0;
  if (page->header_bytes > size || page->values < 0) std::abort();
  const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(page->header_bytes);
  if (read({bytes.begin(), end}) != page || read({bytes.begin(), end - 1})) std::abort();
  return 0;
}
