#include "linkwise/primitives/host/key_table.hpp"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t rows_at_once = 1 << 14;       // by one core
constexpr std::uint64_t worthwhile = 1 << 15;         // rows from which several threads pay off
constexpr std::uint64_t rows_of_partition = 1 << 14;  // whose part of the table stays in a core's L2 cache
constexpr int most_partition_bits = 11;               // writing to more is no faster than random access
constexpr std::uint64_t dense = 4;  // possible words per row, up to which a direct table is smaller than a hash table
constexpr int direct_bits = 16;     // of the words whose part of a direct table stays in a core's L2 cache
constexpr int ahead = 32;           // lookups whose cache line is prefetched

std::uint64_t hash_of_word(std::uint64_t word) { return mix64(word); }

std::size_t leading(std::uint64_t hash, int bits) { return bits == 0 ? 0 : hash >> (64 - bits); }

// Words minus their base.
template <typename Key>
class WordsFrom {
 public:
  explicit WordsFrom(const KeyWords& keys)
      : words_(static_cast<const Key*>(keys.words)), base_(static_cast<Key>(keys.base)) {}
  Key operator[](std::uint64_t row) const { return static_cast<Key>(words_[row] - base_); }

 private:
  const Key* words_;
  Key base_;
};

// One past the greatest word of a row whose key may match.
template <typename Key>
std::uint64_t range_of(const KeyWords& keys, WordsFrom<Key> words) {
  std::uint64_t greatest = 0;
#pragma omp parallel for reduction(max : greatest) num_threads(team_if(keys.rows >= worthwhile))
  for (std::uint64_t row = 0; row < keys.rows; ++row)
    if (keys.valid == nullptr || keys.valid[row] != 0) greatest = std::max<std::uint64_t>(greatest, words[row]);
  return greatest == ~std::uint64_t{0} ? greatest : greatest + 1;
}

}  // namespace

// Sixteen bytes for a 64-bit key, twelve for a 32-bit one.
template <typename Key>
struct KeyTable::Slot {
  Run run;
  Key key;
};

// The rows of each partition: their numbers, in ascending order.
class KeyTable::Cut {
 public:
  template <typename Key, typename Of>
  Cut(const KeyWords& keys, WordsFrom<Key> words, std::size_t partitions, Of&& partition_of)
      : rows_(keys.rows * sizeof(std::uint32_t)) {
    const int threads = team_if(keys.rows >= worthwhile);
    std::vector<std::vector<std::uint64_t>> next(static_cast<std::size_t>(threads),
                                                 std::vector<std::uint64_t>(partitions));
    begins_.resize(partitions + 1);
    auto* rows = reinterpret_cast<std::uint32_t*>(rows_.data());
#pragma omp parallel num_threads(threads)
    {
      const auto t = static_cast<std::uint64_t>(omp_get_thread_num()),
                 all = static_cast<std::uint64_t>(omp_get_num_threads());
      const std::uint64_t begin = keys.rows * t / all, end = keys.rows * (t + 1) / all;
      std::vector<std::uint64_t>& mine = next[t];
      const auto each = [&](auto&& with) {
        for (std::uint64_t row = begin; row < end; ++row)
          if (keys.valid == nullptr || keys.valid[row] != 0) with(partition_of(words[row]), row);
      };
      each([&](std::size_t p, std::uint64_t) { ++mine[p]; });
#pragma omp barrier
#pragma omp single
      {
        std::uint64_t sum = 0;
        for (std::size_t p = 0; p < partitions; ++p) {
          begins_[p] = sum;
          for (auto& of_thread : next) sum += std::exchange(of_thread[p], sum);
        }
        begins_[partitions] = sum;
      }
      each([&](std::size_t p, std::uint64_t row) { rows[mine[p]++] = static_cast<std::uint32_t>(row); });
    }
  }

  [[nodiscard]] std::uint64_t begin(std::size_t partition) const { return begins_[partition]; }
  [[nodiscard]] std::uint64_t count(std::size_t partition) const { return begins_[partition + 1] - begins_[partition]; }
  [[nodiscard]] const std::uint32_t* rows(std::size_t partition) const {
    return reinterpret_cast<const std::uint32_t*>(rows_.data()) + begins_[partition];
  }

 private:
  HugePageBuffer rows_;
  std::vector<std::uint64_t> begins_;
};

KeyTable::KeyTable(const KeyWords& keys) : keys_(keys) {
  if (keys.rows > most_rows)
    throw UsageError("a hash table is built of at most " + std::to_string(most_rows) + " rows, not " +
                     std::to_string(keys.rows));
  with_key(keys.width, [&](auto tag) { build<typename decltype(tag)::type>(); });
}

const KeyTable::Run& KeyTable::run(std::uint32_t group) const {
  const std::size_t bytes = is_direct_                     ? sizeof(Run)
                            : keys_.width == KeyWidth::k32 ? sizeof(Slot<std::uint32_t>)
                                                           : sizeof(Slot<std::uint64_t>);
  return *reinterpret_cast<const Run*>(table_->data() + group * bytes);
}

template <typename Key>
void KeyTable::build() {
  const WordsFrom<Key> words(keys_);
  if (const std::uint64_t range = range_of(keys_, words); keys_.columns.empty() && range <= dense * keys_.rows)
    return build_direct<Key>(range);
  partition_bits_ = std::min(static_cast<int>(std::bit_width(keys_.rows / rows_of_partition)), most_partition_bits);
  partitions_.resize(std::size_t{1} << partition_bits_);
  const Cut cut(keys_, words, partitions_.size(),
                [&](std::uint64_t word) { return leading(hash_of_word(word), partition_bits_); });
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    partitions_[p] = {slots_, std::bit_ceil(2 * cut.count(p) + 1) - 1};
    slots_ += partitions_[p].mask + 1;
  }
  table_.emplace(slots_ * sizeof(Slot<Key>));
  HugePageBuffer slot_of_row(keys_.rows * sizeof(std::uint32_t));  // in the order of the partitions
  auto* of_row = reinterpret_cast<std::uint32_t*>(slot_of_row.data());
  Slot<Key>* const table = slots<Key>();
  bool is_unique = true;
#pragma omp parallel for schedule(dynamic) reduction(&& : is_unique) num_threads(team_if(keys_.rows >= worthwhile))
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    const Partition& part = partitions_[p];
    std::memset(static_cast<void*>(table + part.begin), 0, (part.mask + 1) * sizeof(Slot<Key>));
    const std::uint32_t* rows = cut.rows(p);
    std::uint32_t* const slot_of = of_row + cut.begin(p);
    for (std::uint64_t i = 0; i < cut.count(p); ++i) {
      const Key key = words[rows[i]];
      std::uint64_t at = part.begin + (hash_of_word(key) & part.mask);
      for (;; at = at == part.begin + part.mask ? part.begin : at + 1) {
        Slot<Key>& slot = table[at];
        if (slot.run.count == 0) {
          slot = {{rows[i], 1}, key};
          break;
        }
        if (slot.key == key && keys_.same(slot.run.first, keys_, rows[i])) {
          ++slot.run.count;
          is_unique = false;
          break;
        }
      }
      slot_of[i] = static_cast<std::uint32_t>(at);
    }
  }
  is_unique_ = is_unique;
  if (is_unique) return;
  group_rows<Key>(cut, of_row);
}

// Groups the rows of each key into a run: each slot first gets the end of its run, which is then filled backwards.
template <typename Key>
void KeyTable::group_rows(const Cut& cut, const std::uint32_t* slot_of_row) {
  Slot<Key>* const table = slots<Key>();
  rows_.emplace(keys_.rows * sizeof(std::uint32_t));
  auto* grouped = reinterpret_cast<std::uint32_t*>(rows_->data());
#pragma omp parallel for schedule(dynamic) num_threads(team_if(keys_.rows >= worthwhile))
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    const Partition& part = partitions_[p];
    auto end = static_cast<std::uint32_t>(cut.begin(p));
    for (std::uint64_t at = part.begin; at <= part.begin + part.mask; ++at)
      table[at].run.first = end += table[at].run.count;
    const std::uint32_t* slot_of = slot_of_row + cut.begin(p);
    for (std::uint64_t i = cut.count(p); i-- > 0;) grouped[--table[slot_of[i]].run.first] = cut.rows(p)[i];
  }
}

template <typename Key>
void KeyTable::build_direct(std::uint64_t range) {
  const WordsFrom<Key> words(keys_);
  is_direct_ = true;
  slots_ = range;
  const int shift = std::max(direct_bits, static_cast<int>(std::bit_width(range)) - most_partition_bits);
  const std::size_t partitions = (range >> shift) + 1;
  const Cut cut(keys_, words, partitions, [&](std::uint64_t word) { return word >> shift; });
  table_.emplace(range * sizeof(Run));
  auto* runs = reinterpret_cast<Run*>(table_->data());
  bool is_unique = true;
#pragma omp parallel for schedule(dynamic) reduction(&& : is_unique) num_threads(team_if(keys_.rows >= worthwhile))
  for (std::size_t p = 0; p < partitions; ++p) {
    std::fill(runs + std::min(p << shift, range), runs + std::min((p + 1) << shift, range), Run{});
    for (std::uint64_t i = 0; i < cut.count(p); ++i) {
      const std::uint32_t row = cut.rows(p)[i];
      Run& run = runs[words[row]];
      if (run.count++ == 0) run.first = row;
      else is_unique = false;
    }
  }
  is_unique_ = is_unique;
  rows_.emplace((is_unique ? range : keys_.rows) * sizeof(std::uint32_t));
  auto* rows = reinterpret_cast<std::uint32_t*>(rows_->data());
#pragma omp parallel for schedule(dynamic) num_threads(team_if(keys_.rows >= worthwhile))
  for (std::size_t p = 0; p < partitions; ++p) {
    auto end = static_cast<std::uint32_t>(cut.begin(p));
    for (std::uint64_t word = p << shift; word < std::min((p + 1) << shift, range); ++word)
      if (is_unique) rows[word] = runs[word].count == 0 ? nowhere : runs[word].first;
      else runs[word].first = end += runs[word].count;
    for (std::uint64_t i = is_unique ? 0 : cut.count(p); i-- > 0;)
      rows[--runs[words[cut.rows(p)[i]]].first] = cut.rows(p)[i];
  }
  if (is_unique) table_.reset();
}

template <typename Key>
void KeyTable::find_direct(const KeyWords& others, std::uint32_t* groups) const {
  const WordsFrom<Key> words(others);
  const auto find_by = [&](auto* table, auto&& group_at) {
#pragma omp parallel for schedule(static) num_threads(team_if(others.rows >= worthwhile))
    for (std::uint64_t row = 0; row < others.rows; ++row) {
      if (row + ahead < others.rows) __builtin_prefetch(table + std::min<std::uint64_t>(words[row + ahead], slots_));
      const bool is_there = words[row] < slots_ && (others.valid == nullptr || others.valid[row] != 0);
      groups[row] = is_there ? group_at(words[row]) : nowhere;
    }
  };
  if (is_unique_) return find_by(grouped_rows(), [rows = grouped_rows()](std::uint64_t word) { return rows[word]; });
  const auto* runs = reinterpret_cast<const Run*>(table_->data());
  find_by(runs, [&](std::uint64_t word) { return runs[word].count == 0 ? nowhere : static_cast<std::uint32_t>(word); });
}

void KeyTable::find(const KeyWords& others, std::uint32_t* groups) const {
  if (others.width != keys_.width) throw UsageError("the keys of the two sides have words of two widths");
  with_key(keys_.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    if (is_direct_) find_direct<Key>(others, groups);
    else find_each<Key>(others, groups);
  });
}

template <typename Key>
void KeyTable::find_each(const KeyWords& others, std::uint32_t* groups) const {
  const WordsFrom<Key> words(others);
  const Slot<Key>* const table = slots<Key>();
  const auto blocks = static_cast<std::int64_t>((others.rows + rows_at_once - 1) / rows_at_once);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(others.rows >= worthwhile))
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::uint64_t first = static_cast<std::uint64_t>(b) * rows_at_once,
                        end = std::min(first + rows_at_once, others.rows);
    for (std::uint64_t begin = first; begin < end; begin += ahead) {
      const std::uint64_t count = std::min<std::uint64_t>(ahead, end - begin);
      std::uint64_t at[ahead];
      const Partition* of[ahead];
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t hash = hash_of_word(words[begin + i]);
        of[i] = &partitions_[leading(hash, partition_bits_)];
        at[i] = of[i]->begin + (hash & of[i]->mask);
        __builtin_prefetch(table + at[i]);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t row = begin + i;
        std::uint32_t group = nowhere;
        if (others.valid == nullptr || others.valid[row] != 0) {
          const Key key = words[row];
          for (std::uint64_t slot = at[i];; slot = slot == of[i]->begin + of[i]->mask ? of[i]->begin : slot + 1) {
            const Slot<Key>& there = table[slot];
            if (there.run.count == 0) break;
            const auto one_row = [&] { return is_unique_ ? there.run.first : grouped_rows()[there.run.first]; };
            if (there.key == key && keys_.same(one_row(), others, row)) {
              group = is_unique_ ? there.run.first : static_cast<std::uint32_t>(slot);
              break;
            }
          }
        }
        groups[row] = group;
      }
    }
  }
}

}  // namespace linkwise
