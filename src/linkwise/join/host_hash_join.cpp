#include "linkwise/join/host_hash_join.hpp"

#include <algorithm>
#include <atomic>

#include "linkwise/join/out_of_core/matched_keys.hpp"
#include "linkwise/primitives/host/positions.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t block = 1 << 12;         // probe rows for which one offset in the result is kept
constexpr std::uint64_t rows_at_once = 1 << 16;  // of the result, by one core

std::uint64_t blocks_of(std::uint64_t rows) { return (rows + block - 1) / block; }

}  // namespace

void FoundRows::add(const std::uint32_t* groups, std::uint64_t rows) {
#pragma omp parallel for num_threads(team_if(rows > block))
  for (std::uint64_t row = 0; row < rows; ++row)
    if (groups[row] != KeyTable::nowhere) std::atomic_ref(groups_[groups[row]]).store(1, std::memory_order_relaxed);
}

std::vector<std::uint32_t> FoundRows::rows(bool found) const {
  std::vector<std::uint8_t> of_rows;
  if (!table_->is_unique()) {
    of_rows.resize(table_->rows());
#pragma omp parallel for schedule(dynamic, 1024) num_threads(team_if(table_->groups() > block))
    for (std::uint64_t group = 0; group < table_->groups(); ++group)
      for (std::uint32_t i = 0; groups_[group] != 0 && i < table_->rows_of(static_cast<std::uint32_t>(group)); ++i)
        of_rows[table_->row(static_cast<std::uint32_t>(group), i)] = 1;
  }
  const std::vector<std::uint8_t>& flags = table_->is_unique() ? groups_ : of_rows;
  const std::vector<std::uint64_t> rows =
      positions_where(table_->rows(), [&](std::uint64_t row) { return (flags[row] != 0) == found; });
  return {rows.begin(), rows.end()};
}

HashMatches::HashMatches(std::shared_ptr<const KeyTable> table, const KeyWords& others, bool build_left)
    : build_left_(build_left),
      others_(others),
      table_(std::move(table)),
      groups_(others_.rows * sizeof(std::uint32_t)) {
  table_->find(others_, reinterpret_cast<std::uint32_t*>(groups_.data()));
}

HashMatches::Wanted HashMatches::wanted(JoinKind kind) const {
  if (is_filter(kind)) {
    const bool is_semi = kind == JoinKind::semi;
    if (build_left_) return {.pairs = false, .of_table = true, .of_table_found = is_semi};
    return {.pairs = false, .unmatched = !is_semi, .once = is_semi};
  }
  const bool of_left = keeps_left(kind), of_right = keeps_right(kind);
  return {.unmatched = build_left_ ? of_right : of_left, .of_table = build_left_ ? of_left : of_right};
}

std::uint64_t HashMatches::rows_for(std::uint32_t group, const Wanted& wanted) const {
  if (group == KeyTable::nowhere) return wanted.unmatched ? 1 : 0;
  return wanted.pairs ? table_->rows_of(group) : wanted.once ? 1 : 0;
}

void HashMatches::prepare(JoinKind kind) {
  const Wanted of_kind = wanted(kind);
  if (prepared_ == of_kind) return;
  ends_.assign(blocks_of(others_.rows), 0);
  const auto sum_up = [&](auto&& rows_of_group) {
#pragma omp parallel for schedule(dynamic, 4) num_threads(team_if(others_.rows > 4 * block))
    for (std::uint64_t b = 0; b < ends_.size(); ++b) {
      std::uint64_t sum = 0;  // at most 2^12 times 2^30: no overflow
      for (std::uint64_t row = b * block; row < std::min((b + 1) * block, others_.rows); ++row)
        sum += rows_of_group(groups()[row]);
      ends_[b] = sum;
    }
  };
  if (comes_once(of_kind)) sum_up([kept = kept_of(of_kind)](std::uint32_t group) { return kept.of(group); });
  else sum_up([&](std::uint32_t group) { return rows_for(group, of_kind); });
  add_up(ends_);
  table_rows_.clear();
  if (of_kind.of_table) {
    FoundRows found(table_);
    add_to(found);
    table_rows_ = found.rows(of_kind.of_table_found);
  }
  prepared_ = of_kind;
}

std::uint64_t HashMatches::count(JoinKind kind) {
  prepare(kind);
  return (ends_.empty() ? 0 : ends_.back()) + table_rows_.size();
}

bool HashMatches::keeps_each_row(JoinKind kind) {
  const Wanted of_kind = wanted(kind);
  if (of_kind.of_table && !of_kind.pairs) return false;
  if (of_kind.pairs && !table_->is_unique()) return false;
  return count(kind) == others_.rows && table_rows_.empty();
}

template <typename Row>
void HashMatches::write_rows(const Wanted& wanted, std::uint64_t first, std::uint64_t count, Row* of_others,
                             Row* of_table) const {
  constexpr Row none = static_cast<Row>(-1);
  const std::uint64_t end = first + count, of_blocks = ends_.empty() ? 0 : ends_.back();
  const auto begin_of = [&](std::uint64_t b) { return b == 0 ? 0 : ends_[b - 1]; };
  const auto put = [&](std::uint64_t at, Row other, Row of_build) {
    if (of_others != nullptr) of_others[at - first] = other;
    if (of_table != nullptr) of_table[at - first] = of_build;
  };
  // Split blocks with many result rows, or a very frequent key would keep a single core busy.
  struct Part {
    std::uint64_t block, from, to;  // rows of the result
  };
  std::vector<Part> parts;
  for (auto b = static_cast<std::uint64_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
       b < ends_.size() && begin_of(b) < end; ++b)
    for (std::uint64_t from = std::max(begin_of(b), first); from < std::min(ends_[b], end); from += rows_at_once)
      parts.push_back({b, from, std::min({from + rows_at_once, ends_[b], end})});
#pragma omp parallel for schedule(dynamic, 4) num_threads(team_if(count > 4 * block))
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    std::uint64_t at = begin_of(part.block);
    if (comes_once(wanted) && part.from == at) {  // a row that is not kept is written over by the next one
      const Kept kept = kept_of(wanted);
      for (std::uint64_t row = part.block * block; at < part.to; ++row) {
        const std::uint32_t group = groups()[row];
        put(at, static_cast<Row>(row), wanted.pairs && group != KeyTable::nowhere ? static_cast<Row>(group) : none);
        at += kept.of(group);
      }
      continue;
    }
    for (std::uint64_t row = part.block * block; at < part.to; ++row) {
      const std::uint32_t group = groups()[row];
      const std::uint64_t rows = rows_for(group, wanted);
      const bool is_pair = wanted.pairs && group != KeyTable::nowhere;
      for (std::uint64_t i = std::max(at, part.from); i < std::min(at + rows, part.to); ++i)
        put(i, static_cast<Row>(row),
            is_pair ? static_cast<Row>(table_->row(group, static_cast<std::uint32_t>(i - at))) : none);
      at += rows;
    }
  }
  const std::uint64_t from = std::max(first, of_blocks);
#pragma omp parallel for num_threads(team_if(count > 4 * block))
  for (std::uint64_t i = from; i < end; ++i) put(i, none, static_cast<Row>(table_rows_[i - of_blocks]));
}

void HashMatches::write(JoinKind kind, std::uint64_t first, std::uint64_t count, const RowsOfJoin& to) {
  prepare(kind);
  const auto write_as = [&]<typename Row>(Row*) {
    auto *left = static_cast<Row*>(to.left), *right = static_cast<Row*>(to.right);
    write_rows<Row>(wanted(kind), first, count, build_left_ ? right : left, build_left_ ? left : right);
  };
  if (to.row_bytes == 4) write_as(static_cast<std::uint32_t*>(nullptr));
  else write_as(static_cast<std::int64_t*>(nullptr));
}

}  // namespace linkwise
