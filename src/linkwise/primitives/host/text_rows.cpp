#include "linkwise/primitives/host/text_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr char quote = '"';
constexpr std::uint64_t part_letters = 4 << 20;  // per part, which one core scans

// A bit for each of 64 characters: whether it may affect where rows end.
std::uint64_t marks(const char* letters) {
#ifdef __SSE2__
  std::uint64_t found = 0;
  for (int q = 0; q < 4; ++q) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(letters) + q);
    const __m128i any = _mm_or_si128(
        _mm_cmpeq_epi8(some, _mm_set1_epi8(quote)),
        _mm_or_si128(_mm_cmpeq_epi8(some, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(some, _mm_set1_epi8('\r'))));
    found |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(any))} << (16 * q);
  }
  return found;
#else
  std::uint64_t found = 0;
  for (int i = 0; i < 64; ++i)
    found |= std::uint64_t{letters[i] == quote || letters[i] == '\n' || letters[i] == '\r'} << i;
  return found;
#endif
}

// Where the first field of a whole text begins: after the byte order mark, if there is one.
std::uint64_t first_field_of(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

// Calls `ends(at)` with the position after each row that ends. The text begins with a row or, if `is_quoted`, inside
// quotes. Returns whether it ends inside quotes.
template <typename Ends>
bool for_each_end(std::string_view text, char delimiter, bool is_quoted, std::uint64_t first_field, const Ends& ends) {
  std::uint64_t next = 0;  // characters before it have been examined
  const auto begins_field = [&](std::uint64_t at) {
    return at == first_field || text[at - 1] == delimiter || text[at - 1] == '\n' || text[at - 1] == '\r';
  };
  const auto look = [&](std::uint64_t at) {
    const char letter = text[at];
    if (is_quoted) {
      if (letter != quote) return;
      if (at + 1 < text.size() && text[at + 1] == quote) next = at + 2;
      else is_quoted = false;
    } else if (letter == quote) {
      is_quoted = delimiter != '\0' && begins_field(at);
    } else if (letter == '\n' || (at + 1 < text.size() && text[at + 1] != '\n')) {
      ends(at + 1);
    }
  };
  std::array<char, 64> last{};
  for (std::uint64_t block = 0; block < text.size(); block += last.size()) {
    const char* letters = text.data() + block;
    if (text.size() - block < last.size()) {
      std::memcpy(last.data(), letters, text.size() - block);
      letters = last.data();
    }
    for (std::uint64_t found = marks(letters); found != 0; found &= found - 1) {
      const std::uint64_t at = block + static_cast<std::uint64_t>(std::countr_zero(found));
      if (at >= next) look(at);
    }
  }
  return is_quoted;
}

// Cuts the text into parts that end after a \n each, except perhaps the last: their beginnings, and the last's end.
std::vector<std::uint64_t> parts_of(std::string_view text) {
  std::vector<std::uint64_t> begins{0};
  while (begins.back() + part_letters < text.size()) {
    const std::size_t end = text.find('\n', begins.back() + part_letters);
    if (end == std::string_view::npos) break;
    begins.push_back(end + 1);
  }
  if (begins.back() < text.size() || begins.size() == 1) begins.push_back(text.size());
  return begins;
}

std::vector<std::vector<std::uint64_t>> ends_of_parts(std::string_view text, char delimiter,
                                                      const std::vector<std::uint64_t>& begins) {
  const std::size_t parts = begins.size() - 1;
  std::vector<std::vector<std::uint64_t>> ends(parts);
  std::vector<std::uint8_t> is_left_open(parts);
  const auto look = [&](std::size_t p, bool is_quoted) {
    ends[p].clear();
    is_left_open[p] =
        for_each_end(text.substr(begins[p], begins[p + 1] - begins[p]), delimiter, is_quoted,
                     p == 0 ? first_field_of(text) : 0, [&](std::uint64_t at) { ends[p].push_back(begins[p] + at); });
  };
#pragma omp parallel for schedule(dynamic) num_threads(team_if(parts > 1))
  for (std::size_t p = 0; p < parts; ++p) look(p, false);
  for (std::size_t p = 1; p < parts; ++p)
    if (is_left_open[p - 1]) look(p, true);
  return ends;
}

bool is_end(char letter) { return letter == '\n' || letter == '\r'; }

// How the row that ends at `end` does; a line feed, if by the end of the text.
std::string_view line_end(std::string_view text, std::uint64_t end) {
  if (end == text.size()) return "\n";
  if (text[end - 1] == '\r') return "\r";
  return end >= 2 && text[end - 2] == '\r' ? "\r\n" : "\n";
}

}  // namespace

std::uint64_t end_of_last_row(std::string_view text, char delimiter) {
  std::uint64_t end = 0;
  for_each_end(text, delimiter, false, first_field_of(text), [&](std::uint64_t at) { end = at; });
  return end;
}

TextRows rows_of_text(std::string_view text, char delimiter, bool keeps_blank) {
  const std::vector<std::uint64_t> begins = parts_of(text);
  std::vector<std::vector<std::uint64_t>> ends = ends_of_parts(text, delimiter, begins);
  const std::size_t parts = ends.size();
  std::vector<std::uint64_t> first_begin(parts), rows(parts + 1), letters(parts + 1);
  std::uint64_t last_end = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    first_begin[p] = last_end;
    if (!ends[p].empty()) last_end = ends[p].back();
  }
  const bool lacks_end = last_end < text.size() && text.back() != '\r';
  if (last_end < text.size()) ends.back().push_back(text.size());
  const auto each_row = [&](std::size_t p, auto&& body) {
    std::uint64_t begin = first_begin[p];
    for (const std::uint64_t end : ends[p]) {
      // Longer rows cannot be blank.
      const bool is_blank = end - begin <= 2 && std::ranges::all_of(text.substr(begin, end - begin), is_end);
      if (keeps_blank || !is_blank) body(begin, end);
      begin = end;
    }
  };
#pragma omp parallel for schedule(dynamic) num_threads(team_if(parts > 1))
  for (std::size_t p = 0; p < parts; ++p) {
    std::uint64_t count = 0, length = 0;
    each_row(p, [&](std::uint64_t begin, std::uint64_t end) {
      ++count;
      length += end - begin;
    });
    rows[p + 1] = count;
    letters[p + 1] = length;
  }
  for (std::size_t p = 0; p < parts; ++p) {
    rows[p + 1] += rows[p];
    letters[p + 1] += letters[p];
  }
  const auto has_end = [](const std::vector<std::uint64_t>& some) { return !some.empty(); };
  const std::string_view added = lacks_end ? line_end(text, std::ranges::find_if(ends, has_end)->front()) : "";
  const bool is_copied = lacks_end || letters[parts] < text.size();
  TextRows found{rows[parts], {}, HugePageBuffer((rows[parts] + 1) * sizeof(std::int64_t))};
  if (is_copied) found.letters.emplace(letters[parts] + added.size());
  auto* to = is_copied ? reinterpret_cast<char*>(found.letters->data()) : nullptr;
  auto* offsets = reinterpret_cast<std::int64_t*>(found.offsets.data());
#pragma omp parallel for schedule(dynamic) num_threads(team_if(parts > 1))
  for (std::size_t p = 0; p < parts; ++p) {
    std::uint64_t row = rows[p], at = letters[p];
    each_row(p, [&](std::uint64_t begin, std::uint64_t end) {
      offsets[row++] = static_cast<std::int64_t>(at);
      if (is_copied) std::memcpy(to + at, text.data() + begin, end - begin);
      at += end - begin;
    });
  }
  if (lacks_end) std::ranges::copy(added, to + letters[parts]);
  offsets[rows[parts]] = static_cast<std::int64_t>(letters[parts] + added.size());
  return found;
}

}  // namespace linkwise
