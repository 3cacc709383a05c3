#include "linkwise/primitives/host/row_hash.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "linkwise/error.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

constexpr std::uint64_t rows_at_once = 1 << 14;   // by one core
constexpr std::uint64_t words_at_once = 1 << 11;  // which stay in the first cache, beside their hashes
constexpr std::uint64_t of_null = 0x9E3779B97F4A7C15;
constexpr std::uint64_t of_text =
    0xBF58476D1CE4E5B9;  // keeps zeros, of which data have many, from making products zero

// With either argument fixed, a bijection of the other.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xD6E8FEB86659FD93;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93;
  return hash ^ (hash >> 29);
}

template <typename Word>
std::uint64_t load(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Both halves of the product of two words: one multiplication for sixteen bytes.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Sixteen bytes at a time; the last ones, up to sixteen, as two words that may overlap. The hash before is added, lest
// a word that makes the product zero hide it.
[[gnu::always_inline]] inline std::uint64_t mix_bytes(std::uint64_t hash, const std::byte* bytes,
                                                      std::uint64_t length) {
  std::uint64_t left = length;
  for (; left > 16; left -= 16, bytes += 16)
    hash += fold(load<std::uint64_t>(bytes) ^ of_null, load<std::uint64_t>(bytes + 8) ^ hash ^ of_text);
  std::uint64_t begin = 0, end = 0;
  if (left >= 8) {
    begin = load<std::uint64_t>(bytes);
    end = load<std::uint64_t>(bytes + left - 8);
  } else if (left >= 4) {
    begin = load<std::uint32_t>(bytes);
    end = load<std::uint32_t>(bytes + left - 4);
  } else if (left > 0) {
    begin = load<std::uint8_t>(bytes) | load<std::uint8_t>(bytes + left / 2) << 8;
    end = load<std::uint8_t>(bytes + left - 1);
  }
  return mix(hash + fold(begin ^ of_null, end ^ hash ^ of_text), length);
}

template <typename Number>
[[gnu::always_inline]] inline void mix_each(std::uint64_t* hashes, const std::byte* numbers, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) hashes[i] = mix(hashes[i], load<Number>(numbers + i * sizeof(Number)));
}

// The widest vectors that a machine has are chosen when the library is loaded.
[[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]] void mix_numbers(std::uint64_t* hashes,
                                                                             const std::byte* numbers, int width,
                                                                             std::uint64_t count) {
  switch (width) {
    case 1: return mix_each<std::uint8_t>(hashes, numbers, count);
    case 2: return mix_each<std::uint16_t>(hashes, numbers, count);
    case 4: return mix_each<std::uint32_t>(hashes, numbers, count);
    default: return mix_each<std::uint64_t>(hashes, numbers, count);
  }
}

// A word for each of `count` bits from `begin` on.
[[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]] void expand(const std::uint8_t* bits, std::uint64_t begin,
                                                                        std::uint64_t* words, std::uint64_t count) {
  std::uint64_t i = 0;
  for (; i < count && (begin + i) % 8 != 0; ++i) words[i] = bit(bits, begin + i) ? 1 : 0;
  for (const std::uint8_t* whole = bits + (begin + i) / 8; i + 8 <= count; i += 8, ++whole)
    for (std::uint64_t b = 0; b < 8; ++b) words[i + b] = *whole >> b & 1;
  for (; i < count; ++i) words[i] = bit(bits, begin + i) ? 1 : 0;
}

// The hash of a null's row is inverted, and its word is always the same.
[[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]] void set_nulls(std::uint64_t* hashes, std::uint64_t* words,
                                                                           const std::uint64_t* valid,
                                                                           std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t null = valid[i] - 1;
    hashes[i] ^= null;
    words[i] = (words[i] & ~null) | (of_null & null);
  }
}

// Hashes rows of one chunk, from its row `first` on.
class ChunkHash {
 public:
  ChunkHash(const ChunkedColumn& column, const ColumnChunk& chunk) : column_(column), chunk_(chunk) {}

  void mix_into(std::span<std::uint64_t> hashes, std::uint64_t first) const {
    while (!hashes.empty()) {
      const std::span<std::uint64_t> part = hashes.first(std::min<std::uint64_t>(hashes.size(), words_at_once));
      mix_block(part, chunk_.offset + first);
      hashes = hashes.subspan(part.size());
      first += part.size();
    }
  }

 private:
  using Words = std::array<std::uint64_t, words_at_once>;

  void mix_block(std::span<std::uint64_t> hashes, std::uint64_t begin) const {
    switch (column_.layout) {
      case Layout::bits: {
        Words words;
        expand(reinterpret_cast<const std::uint8_t*>(chunk_.values), begin, words.data(), hashes.size());
        return mix_words(hashes, words, begin);
      }
      case Layout::strings32: return strings<std::int32_t>(hashes, begin);
      case Layout::strings64: return strings<std::int64_t>(hashes, begin);
      case Layout::fixed: break;
    }
    switch (column_.width) {
      case 1: return numbers<std::uint8_t>(hashes, begin);
      case 2: return numbers<std::uint16_t>(hashes, begin);
      case 4: return numbers<std::uint32_t>(hashes, begin);
      case 8: return numbers<std::uint64_t>(hashes, begin);
      case 16: return each(hashes, begin, [&](auto h, auto at) { return mix_bytes(h, chunk_.values + at * 16, 16); });
      default:
        const auto width = static_cast<std::uint64_t>(column_.width);
        each(hashes, begin, [&](auto h, auto at) { return mix_bytes(h, chunk_.values + at * width, width); });
    }
  }

  template <typename Number>
  void numbers(std::span<std::uint64_t> hashes, std::uint64_t begin) const {
    const std::byte* values = chunk_.values + begin * sizeof(Number);
    if (chunk_.validity == nullptr) return mix_numbers(hashes.data(), values, sizeof(Number), hashes.size());
    Words words;
    for (std::uint64_t i = 0; i < hashes.size(); ++i) words[i] = load<Number>(values + i * sizeof(Number));
    mix_words(hashes, words, begin);
  }

  // Elements of one word each.
  void mix_words(std::span<std::uint64_t> hashes, Words& words, std::uint64_t begin) const {
    if (chunk_.validity != nullptr) {
      Words valid;
      expand(chunk_.validity, begin, valid.data(), hashes.size());
      set_nulls(hashes.data(), words.data(), valid.data(), hashes.size());
    }
    mix_numbers(hashes.data(), reinterpret_cast<const std::byte*>(words.data()), sizeof words[0], hashes.size());
  }

  // Elements of several words.
  template <typename Mix>
  void each(std::span<std::uint64_t> hashes, std::uint64_t begin, const Mix& mixed) const {
    if (chunk_.validity == nullptr) {
      for (std::uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = mixed(hashes[i], begin + i);
    } else {
      for (std::uint64_t i = 0; i < hashes.size(); ++i)
        hashes[i] = bit(chunk_.validity, begin + i) ? mixed(hashes[i], begin + i) : mix(~hashes[i], of_null);
    }
  }

  template <typename Offset>
  void strings(std::span<std::uint64_t> hashes, std::uint64_t begin) const {
    each(hashes, begin, [&](std::uint64_t h, std::uint64_t at) {
      const auto* offsets = static_cast<const Offset*>(chunk_.offsets);
      return mix_bytes(h, chunk_.values + offsets[at], static_cast<std::uint64_t>(offsets[at + 1] - offsets[at]));
    });
  }

  const ChunkedColumn& column_;
  const ColumnChunk& chunk_;
};

// Mixes the elements of rows from `first` on, which may lie in several chunks.
void mix_rows(const ChunkedColumn& column, const ChunkFinder& finder, std::uint64_t first,
              std::span<std::uint64_t> hashes) {
  for (std::size_t c = finder.find(first); !hashes.empty(); ++c) {
    const ColumnChunk& chunk = column.chunks[c];
    const std::uint64_t begin = first - finder.begin(c);
    const std::uint64_t count = std::min<std::uint64_t>(chunk.count - begin, hashes.size());
    ChunkHash(column, chunk).mix_into(hashes.first(count), begin);
    hashes = hashes.subspan(count);
    first += count;
  }
}

}  // namespace

std::uint64_t sum_of_row_hashes(std::span<const ChunkedColumn> columns) {
  constexpr std::uint64_t at_once = words_at_once;
  const std::uint64_t rows = columns.empty() ? 0 : columns.front().count();
  std::vector<ChunkFinder> finders;
  for (const ChunkedColumn& column : columns) {
    if (column.count() != rows) throw UsageError("the columns differ in length");
    finders.emplace_back(column);
  }
  const auto blocks = static_cast<std::int64_t>((rows + at_once - 1) / at_once);
  std::uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic, 32) num_threads(team_if(blocks > 8)) reduction(+ : sum)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<std::uint64_t, at_once> hashes{};
    const std::uint64_t first = static_cast<std::uint64_t>(b) * at_once;
    const std::span<std::uint64_t> block = std::span(hashes).first(std::min(at_once, rows - first));
    for (std::size_t c = 0; c < columns.size(); ++c) mix_rows(columns[c], finders[c], first, block);
    for (const std::uint64_t hash : block) sum += hash;
  }
  return sum;
}

void hash_rows(const ChunkedColumn& column, std::span<std::uint64_t> hashes) {
  if (column.count() != hashes.size()) throw UsageError("each row has one hash");
  std::uint64_t done = 0;
  for (const ColumnChunk& chunk : column.chunks) {
    const ChunkHash of_chunk(column, chunk);
    const std::span<std::uint64_t> part = hashes.subspan(done, chunk.count);
    const auto blocks = static_cast<std::int64_t>((chunk.count + rows_at_once - 1) / rows_at_once);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(blocks > 1))
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint64_t first = static_cast<std::uint64_t>(b) * rows_at_once;
      of_chunk.mix_into(part.subspan(first, std::min(rows_at_once, chunk.count - first)), first);
    }
    done += chunk.count;
  }
}

}  // namespace linkwise
