#include "linkwise/primitives/host/top_k_filter.hpp"

#include <algorithm>
#include <bit>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/positions.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 16;  // words from which several threads pay off
constexpr int digit_bits = 12;
constexpr std::uint64_t sample_words = 1 << 12, spare_ranks = 8;

// The bits of a word above its lower `bits`.
std::uint64_t above(std::uint64_t word, int bits) { return bits == 64 ? 0 : word >> bits; }

// The histogram of the next digit, of `digit` bits, of the words whose bits above the lower `bits` equal `prefix`.
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

// A bound that is at least the k-th least word, and that few other words do not exceed.
template <typename Word>
std::uint64_t bound_of_least(const Word* words, std::uint64_t count, std::uint64_t k) {
  std::uint64_t greatest = 0;
#pragma omp parallel for reduction(max : greatest) num_threads(team_if(count > worthwhile))
  for (std::uint64_t i = 0; i < count; ++i) greatest = std::max<std::uint64_t>(greatest, words[i]);
  int bits = static_cast<int>(std::bit_width(greatest));  // lower bits that are undecided
  std::uint64_t prefix = 0, less = 0;                     // the bound's upper bits; number of words with lesser ones
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

// The positions of all words up to a bound from a sample: a few times k if the sample is representative, but maybe
// fewer than k if it is not.
template <typename Word>
std::vector<std::uint64_t> likely_positions(const Word* words, std::uint64_t count, std::uint64_t k) {
  const std::uint64_t rank = count < 4 * sample_words ? sample_words : 2 * k / (count / sample_words) + spare_ranks;
  if (rank > sample_words / 8) return {};
  std::vector<Word> sample(sample_words);
  for (std::uint64_t i = 0; i < sample_words; ++i) sample[i] = words[i * (count / sample_words)];
  std::ranges::nth_element(sample, sample.begin() + static_cast<std::ptrdiff_t>(rank));
  return positions_where(count, [words, bound = sample[rank]](std::uint64_t i) { return words[i] <= bound; });
}

template <typename Word>
std::vector<std::uint64_t> positions_of_least_words(const Word* words, std::uint64_t count, std::uint64_t k) {
  std::vector<std::uint64_t> positions = likely_positions(words, count, k);
  if (positions.size() < k) {
    const std::uint64_t bound = bound_of_least(words, count, k);
    return positions_where(count, [&](std::uint64_t i) { return words[i] <= bound; });
  }
  std::vector<Word> candidates(positions.size());
  std::ranges::transform(positions, candidates.begin(), [words](std::uint64_t at) { return words[at]; });
  const std::uint64_t bound = bound_of_least(candidates.data(), candidates.size(), k);
  std::erase_if(positions, [&](std::uint64_t at) { return words[at] > bound; });
  return positions;
}

}  // namespace

std::vector<std::uint64_t> positions_of_least(KeyWidth width, const void* words, std::uint64_t count, std::uint64_t k) {
  std::vector<std::uint64_t> positions;
  if (k == 0 || count == 0) return positions;
  with_key(width, [&](auto tag) {
    const auto* data = static_cast<const typename decltype(tag)::type*>(words);
    positions = positions_of_least_words(data, count, std::min(k, count));
  });
  return positions;
}

}  // namespace linkwise
