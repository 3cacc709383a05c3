// Single values of Parquet pages: whatever the bytes, there is a value for each place, or they are refused. The first
// bytes say how the others are taken.
#include "linkwise/primitives/host/parquet_values.hpp"

#include <cstdlib>
#include <iterator>

#include "driver.hpp"
#include "linkwise/error.hpp"

using namespace linkwise;

std::vector<std::string> seeds() {
  const auto of = [](std::initializer_list<int> bytes) { return std::string(bytes.begin(), bytes.end()); };
  return {
      of({4, 0, 0, 0, 8, 1, 0, 0, 0, 2, 0, 0, 0}),
      of({0, 1, 2, 3, 16, 2, 0, 0, 0, 'a', 'b', 1, 0, 0, 0, 'c', 2, 0, 0, 0, 6, 1, 2, 3, 0x10, 6, 1}),
      of({5, 0, 2, 40, 0, 0x80, 1, 4, 41, 6, 3, 2, 0, 0, 0, 0x1b, 0x1b, 0x1b, 0x1b, 0x1b, 0x1b, 0x1b, 0x1b}),
      // 40 bytes by Snappy: a literal, 4 bytes of it again, and 28 zeros, of which each is the one before.
      of({4, 128, 0, 8, 0, 40, 28, 1, 2, 3, 4, 5, 6, 7, 8, 1, 4, 0, 0, 110, 1, 0}),
      of({8, 1, 8, 2, 9, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 3, 0x35, 0, 1, 5, 0x54}),
  };
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  const std::uint32_t width = data[0] % 3 == 0 ? 0 : data[0] % 3 * 4;
  const std::span<const std::uint8_t> bytes(data + 5, size - 5);
  const std::size_t of_dictionary = std::min<std::size_t>(data[4], bytes.size());
  const std::uint64_t count = std::uint64_t{data[3]} + 1;
  std::vector<std::int64_t> places;
  for (std::uint64_t place = data[2] % count; place < count; place += data[2] % 7 + 1)
    places.push_back(static_cast<std::int64_t>(place));
  const std::int64_t encodings[] = {ParquetValues::plain, ParquetValues::by_dictionary, ParquetValues::deltas};
  const std::span<const std::uint8_t> page = bytes.subspan(of_dictionary);
  std::optional<std::uint64_t> plain_bytes;  // where the page is compressed
  if (data[1] >= 128 && page.size() > 1)
    plain_bytes = page[0] < 128 ? page[0] : std::uint64_t{page[0]} - 128 + 128 * std::uint64_t{page[1]};
  ParquetValues values(width, data[1] % 2 != 0);
  try {
    values.set_dictionary(bytes.first(of_dictionary), data[1] / 2 % 64);
    values.add(page, count, encodings[data[2] % std::size(encodings)], places, plain_bytes);
  } catch (const Error&) {
    return 0;
  }
  if (values.count() != places.size()) std::abort();
  const std::uint64_t ends = width != 0 ? width * values.count() : static_cast<std::uint64_t>(values.offsets().back());
  if (values.bytes().size() != ends) std::abort();
  return 0;
}
