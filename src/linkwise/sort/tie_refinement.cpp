#include "linkwise/sort/tie_refinement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t small = 256;                // most rows of a group that one core orders on its own
constexpr std::uint64_t block_positions = 1 << 14;  // positions that a core scans at a time
constexpr std::uint64_t tiny = 48;                  // most rows of a group that is ordered by their ranks

// ranks[i]: how many words come before words[i] in a stable order. Compares every word with every other, vectorised
// and without branches: for few words, that is faster than sorting them.
[[gnu::target_clones("avx512f", "avx2", "default")]] void find_ranks(const std::uint64_t* words, std::uint64_t count,
                                                                     std::uint64_t* ranks) {
  std::fill_n(ranks, count, 0);
  for (std::uint64_t j = 0; j < count; ++j) {
    const std::uint64_t word = words[j];
    for (std::uint64_t i = 0; i < j; ++i) ranks[i] += word < words[i] ? 1 : 0;
    for (std::uint64_t i = j + 1; i < count; ++i) ranks[i] += word <= words[i] ? 1 : 0;
  }
}

// Orders small groups, one after the other, on one core.
template <typename Row>
class GroupSorter {
 public:
  explicit GroupSorter(const RowKeys& keys) : keys_(keys) {}

  /// Orders rows whose keys agree up to the cursor.
  void sort(Row* rows, std::uint64_t count, RowKeys::Cursor cursor) { sort(rows, count, cursor, 0); }

 private:
  struct Entry {
    std::uint64_t word;
    Row row;
    std::uint32_t position;  // breaks ties, for a stable order
  };

  // Uses the entries from `base` on; those before it belong to the callers up the recursion.
  void sort(Row* rows, std::uint64_t count, RowKeys::Cursor cursor, std::size_t base) {
    if (entries_.size() < base + count) entries_.resize(2 * (base + count));
    bool all_equal = true;
    while (all_equal) {
      cursor = keys_.behind_shared(cursor, rows, count);
      if (keys_.at_end(cursor)) return;
      const RowKeys::Shape& shape = shape_at(cursor);
      for (std::uint64_t i = 0; i < count; ++i) {
        entries_[base + i] = {keys_.word(shape, rows[i]), rows[i], static_cast<std::uint32_t>(i)};
        all_equal = all_equal && entries_[base + i].word == entries_[base].word;
      }
      if (all_equal) cursor = keys_.behind(shape, entries_[base].word);
    }
    order(entries_.data() + base, count);
    for (std::uint64_t i = 0; i < count; ++i) rows[i] = entries_[base + i].row;
    for (std::uint64_t begin = 0, end = 0; begin < count; begin = end) {
      const std::uint64_t word = entries_[base + begin].word;
      while (end < count && entries_[base + end].word == word) ++end;
      if (end - begin > 1) sort(rows + begin, end - begin, keys_.behind(shape_at(cursor), word), base + count);
    }
  }

  // Sorts entries that are not all equal. More than `tiny` are first distributed to buckets: words after a common
  // prefix are mostly spread evenly between the least and the greatest, so each bucket has few.
  void order(Entry* entries, std::uint64_t count) {
    if (count <= tiny) {
      std::copy_n(entries, count, spread_.begin());
      return order_by_counting(spread_.data(), count, entries);
    }
    const auto by_word = [](const Entry& a, const Entry& b) { return a.word < b.word; };
    const auto [least, greatest] = std::minmax_element(entries, entries + count, by_word);
    const std::uint64_t base = least->word;
    const int shift = std::max(0, static_cast<int>(std::bit_width(greatest->word - base)) - bucket_bits);
    std::array<std::uint64_t, buckets + 1> begins{};
    for (std::uint64_t i = 0; i < count; ++i) ++begins[((entries[i].word - base) >> shift) + 1];
    for (std::size_t b = 1; b < begins.size(); ++b) begins[b] += begins[b - 1];
    std::array<std::uint64_t, buckets + 1> next = begins;
    for (std::uint64_t i = 0; i < count; ++i) spread_[next[(entries[i].word - base) >> shift]++] = entries[i];
    for (std::size_t b = 0; b < buckets; ++b) {
      const std::uint64_t first = begins[b], length = begins[b + 1] - first;
      if (length <= tiny) {
        order_by_counting(spread_.data() + first, length, entries + first);
        continue;
      }
      std::copy_n(spread_.data() + first, length, entries + first);
      std::sort(entries + first, entries + first + length, [](const Entry& a, const Entry& b) {
        return a.word != b.word ? a.word < b.word : a.position < b.position;
      });
    }
  }

  static void order_by_counting(const Entry* from, std::uint64_t count, Entry* to) {
    std::array<std::uint64_t, tiny> words, ranks;
    for (std::uint64_t i = 0; i < count; ++i) words[i] = from[i].word;
    find_ranks(words.data(), count, ranks.data());
    for (std::uint64_t i = 0; i < count; ++i) to[ranks[i]] = from[i];
  }

  // Cached, because most groups continue at one of a few cursors.
  const RowKeys::Shape& shape_at(RowKeys::Cursor cursor) {
    if (cursor.field >= shapes_.size()) shapes_.resize(cursor.field + 1);
    auto& [known, shape] = shapes_[cursor.field];
    if (shape.count == 0 || known != cursor) {
      known = cursor;
      shape = keys_.shape(cursor);
    }
    return shape;
  }

  static constexpr int bucket_bits = 4;
  static constexpr std::size_t buckets = 1 << bucket_bits;

  const RowKeys& keys_;
  std::vector<Entry> entries_;
  std::array<Entry, small> spread_;
  std::vector<std::pair<RowKeys::Cursor, RowKeys::Shape>> shapes_;  // per field, the last requested shape
};

// The end of the run of equal words that begins at `begin`.
template <typename Word>
std::uint64_t end_of_run(const Word* words, std::uint64_t begin, std::uint64_t count) {
  std::uint64_t step = 1;
  while (begin + step < count && words[begin + step] == words[begin]) step *= 2;
  return static_cast<std::uint64_t>(
      std::upper_bound(words + begin + step / 2, words + std::min(begin + step, count), words[begin]) - words);
}

}  // namespace

TieRefinement::TieRefinement(const RowKeys& keys, const RowKeys::Shape& shape, KeyWidth width, const void* words,
                             int row_bytes, void* rows)
    : keys_(keys), row_bytes_(row_bytes), rows_(rows) {
  shapes_[{}] = shape;
  open_ = {{0, keys.rows(), 0, {}}};
  open_rows_ = keys.rows();
  with_key(width, [&](auto word) {
    using Word = typename decltype(word)::type;
    with_key(to_key_width(row_bytes),
             [&](auto row) { refine<typename decltype(row)::type>(static_cast<const Word*>(words)); });
  });
}

template <typename Row, typename Word>
void TieRefinement::refine(const Word* words) {
  const std::uint64_t mask = word_bits_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << word_bits_) - 1;
  const auto group_of = [&](std::uint64_t word) -> const Group& {
    return open_[word_bits_ == 64 ? 0 : word >> word_bits_];
  };
  auto* rows = static_cast<Row*>(rows_);
  std::vector<Group> large;
#pragma omp parallel num_threads(team_if(open_rows_ > block_positions))
  {
    std::vector<Group> found;
    GroupSorter<Row> sorter(keys_);
#pragma omp for schedule(dynamic)
    for (std::uint64_t first = 0; first < open_rows_; first += block_positions) {
      const std::uint64_t last = std::min(first + block_positions, open_rows_);
      std::uint64_t begin = first;
      if (begin > 0) {  // a run that began earlier belongs to an earlier block
        while (begin < last && words[begin] == words[begin - 1]) ++begin;
      }
      for (std::uint64_t end = begin; begin < last; begin = end) {
        end = end_of_run(words, begin, open_rows_);
        if (end - begin == 1) continue;
        const Group& group = group_of(words[begin]);
        const RowKeys::Cursor cursor = keys_.behind(shape_of(group), words[begin] & mask);
        const std::uint64_t at = group.begin + (begin - group.first);
        if (keys_.at_end(cursor)) continue;
        if (end - begin <= small) {
          sorter.sort(rows + at, end - begin, cursor);
          continue;
        }
        const RowKeys::Cursor next = keys_.behind_shared(cursor, rows + at, end - begin);
        if (!keys_.at_end(next)) found.push_back({at, at + (end - begin), 0, next});
      }
    }
#pragma omp critical
    large.insert(large.end(), found.begin(), found.end());
  }
  open(std::move(large));
}

void TieRefinement::open(std::vector<Group> groups) {
  std::ranges::sort(groups, {}, &Group::begin);
  open_ = std::move(groups);
  word_bits_ = 64 - static_cast<int>(std::bit_width(open_.empty() ? 0 : open_.size() - 1));
  open_rows_ = 0;
  shapes_.clear();
  for (Group& group : open_) {
    group.first = open_rows_;
    open_rows_ += group.end - group.begin;
    if (!shapes_.contains(group.cursor)) shapes_[group.cursor] = keys_.shape(group.cursor, word_bits_);
  }
}

void TieRefinement::write_words(std::uint64_t* words) const {
  with_key(to_key_width(row_bytes_), [&](auto tag) {
    const auto* rows = static_cast<const typename decltype(tag)::type*>(rows_);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(open_rows_ > block_positions))
    for (std::uint64_t first = 0; first < open_rows_; first += block_positions) {
      const std::uint64_t last = std::min(first + block_positions, open_rows_);
      auto group = std::ranges::upper_bound(open_, first, {}, &Group::first) - 1;
      for (std::uint64_t i = first; i < last;) {
        const RowKeys::Shape& shape = shape_of(*group);
        const auto number = static_cast<std::uint64_t>(group - open_.begin());
        const std::uint64_t upper = word_bits_ == 64 ? 0 : number << word_bits_;
        const std::uint64_t end = std::min(last, group->first + (group->end - group->begin));
        for (; i < end; ++i) words[i] = upper | keys_.word(shape, rows[group->begin + (i - group->first)]);
        ++group;
      }
    }
  });
}

void TieRefinement::place(const std::uint64_t* words, const void* order) {
  with_key(to_key_width(row_bytes_), [&](auto tag) {
    using Row = typename decltype(tag)::type;
    auto* rows = static_cast<Row*>(rows_);
    const auto* sources = static_cast<const Row*>(order);
    const HugePageBuffer room(open_rows_ * sizeof(Row));
    auto* before = reinterpret_cast<Row*>(room.data());
#pragma omp parallel for schedule(dynamic) num_threads(team_if(open_rows_ > block_positions))
    for (const Group& group : open_) std::copy(rows + group.begin, rows + group.end, before + group.first);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(open_rows_ > block_positions))
    for (const Group& group : open_)
      for (std::uint64_t i = 0; i < group.end - group.begin; ++i)
        rows[group.begin + i] = before[sources[group.first + i]];
    refine<Row>(words);
  });
}

}  // namespace linkwise
