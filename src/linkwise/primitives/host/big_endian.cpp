#include "linkwise/primitives/host/big_endian.hpp"

#include <cstring>

#include "linkwise/error.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::uint64_t worthwhile = 1 << 16;  // integers from which several threads pay off

template <typename Number>
void decode(std::span<const std::uint8_t> from, std::size_t bytes, std::byte* to) {
  const std::uint64_t count = from.size() / bytes;
  // A whole word is read for each integer but the last ones, behind which there may be no bytes.
  const std::uint64_t with_word = from.size() < word ? 0 : (from.size() - word) / bytes + 1;
  const auto decode_one = [=](std::uint64_t i, std::size_t read_bytes) {
    std::uint64_t read = 0;
    std::memcpy(&read, from.data() + i * bytes, read_bytes);
    const auto integer = static_cast<std::int64_t>(__builtin_bswap64(read)) >> (8 * (word - bytes));
    const auto number = static_cast<Number>(integer);
    std::memcpy(to + i * sizeof(Number), &number, sizeof(Number));
  };
#pragma omp parallel for schedule(static) num_threads(team_if(count > worthwhile))
  for (std::uint64_t i = 0; i < with_word; ++i) decode_one(i, word);
  for (std::uint64_t i = with_word; i < count; ++i) decode_one(i, bytes);
}

}  // namespace

void decode_big_endian(std::span<const std::uint8_t> from, std::size_t bytes, std::size_t number_bytes, std::byte* to) {
  if ((number_bytes != 4 && number_bytes != word) || bytes == 0 || bytes > number_bytes)
    throw UsageError("integers of 1 to 8 bytes become numbers of 4 or 8, which are not shorter");
  if (from.size() % bytes != 0) throw UsageError("the last integer is cut off");
  if (number_bytes == 4) decode<std::int32_t>(from, bytes, to);
  else decode<std::int64_t>(from, bytes, to);
}

}  // namespace linkwise
