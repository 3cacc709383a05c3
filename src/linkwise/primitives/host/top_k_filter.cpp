#include "linkwise/primitives/host/top_k_filter.hpp"

#include <algorithm>
#include <bit>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/positions.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 16;  // words that pay for waking the other cores
constexpr int digit_bits = 12;

// The bits of a word above its lower `bits`.
std::uint64_t above(std::uint64_t word, int bits) { return bits == 64 ? 0 : word >> bits; }

// Of the words that are `prefix` above their lower `bits`, how many have each next digit, of `digit` bits.
template <typename Word>
std::vector<std::uint64_t> count_digits(const Word* words, std::uint64_t count, std::uint64_t prefix, int bits,
                                        int digit) {
  std::vector<std::uint64_t> counts(std::size_t{1} << digit);
#pragma omp parallel num_threads(team_if(count > worthwhile))
  {
    std::vector<std::uint64_t> mine(counts.size());
#pragma omp for nowait
    for (std::uint64_t i = 0; i < count; ++i)
      if (above(words[i], bits) == prefix) ++mine[words[i] >> (bits - digit) & (mine.size() - 1)];
#pragma omp critical
    for (std::size_t d = 0; d < counts.size(); ++d) counts[d] += mine[d];
  }
  return counts;
}

// A bound that at least k words do not exceed, and few others.
template <typename Word>
std::uint64_t bound_of_least(const Word* words, std::uint64_t count, std::uint64_t k) {
  std::uint64_t greatest = 0;
#pragma omp parallel for reduction(max : greatest) num_threads(team_if(count > worthwhile))
  for (std::uint64_t i = 0; i < count; ++i) greatest = std::max<std::uint64_t>(greatest, words[i]);
  int bits = static_cast<int>(std::bit_width(greatest));  // that are not decided
  std::uint64_t prefix = 0, less = 0;                     // the bound's upper bits, and words with lesser ones
  bool is_close = false;
  while (bits > 0 && !is_close) {
    const int digit = std::min(bits, digit_bits);
    const std::vector<std::uint64_t> counts = count_digits(words, count, prefix, bits, digit);
    std::uint64_t next = 0;
    while (less + counts[next] < k) less += counts[next++];
    is_close = less + counts[next] <= 2 * k;
    prefix = prefix << digit | next;
    bits -= digit;
  }
  return bits == 0 ? prefix : (prefix << bits) + ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

std::vector<std::uint64_t> positions_of_least(KeyWidth width, const void* words, std::uint64_t count, std::uint64_t k) {
  std::vector<std::uint64_t> positions;
  if (k == 0 || count == 0) return positions;
  with_key(width, [&](auto tag) {
    const auto* data = static_cast<const typename decltype(tag)::type*>(words);
    const std::uint64_t bound = bound_of_least(data, count, std::min(k, count));
    positions = positions_where(count, [&](std::uint64_t i) { return data[i] <= bound; });
  });
  return positions;
}

}  // namespace linkwise
