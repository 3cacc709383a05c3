#include "linkwise/join/out_of_core/merge_path_partitions.hpp"

#include <algorithm>
#include <limits>

#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

// A cut of all runs at a rank: before the rows of a key, or after them if that gives exactly the rank.
struct CutOfRuns {
  std::vector<std::uint64_t> below, upto;  // per run: rows with smaller keys, and rows up to and including the key
  bool is_clean = true;                    // the rank falls exactly after all rows of the key
};

class Cutter {
 public:
  Cutter(const SortedRuns& left, const SortedRuns& right)
      : greatest_(std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * static_cast<int>(key_width(left.key_type)))) {
    for (const SortedRuns* side : {&left, &right})
      for (const HostRun& run : side->runs) runs_.push_back({run, side->key_type});
  }

  // Finds the least code with at least `rank` rows up to it, by bisection; each step narrows the runs' search ranges.
  [[nodiscard]] CutOfRuns cut_at(std::uint64_t rank) const {
    std::vector<std::uint64_t> low(runs_.size(), 0), high;
    for (const Run& run : runs_) high.push_back(run.keys.count);
    std::uint64_t least = 0, greatest = greatest_;
    while (least < greatest) {
      const std::uint64_t middle = least + (greatest - least) / 2;
      std::vector<std::uint64_t> upto(runs_.size());
      for (std::size_t r = 0; r < runs_.size(); ++r) upto[r] = rows_upto(r, middle, low[r], high[r]);
      if (sum(upto) >= rank) {
        greatest = middle;
        high = std::move(upto);
      } else {
        least = middle + 1;
        low = std::move(upto);
      }
    }
    CutOfRuns cut;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const std::uint64_t count = runs_[r].keys.count;
      cut.below.push_back(least == 0 ? 0 : rows_upto(r, least - 1, 0, count));
      cut.upto.push_back(rows_upto(r, least, 0, count));
    }
    cut.is_clean = sum(cut.upto) == rank;
    return cut;
  }

 private:
  struct Run {
    HostRun keys;
    KeyType type;
  };

  static std::uint64_t sum(const std::vector<std::uint64_t>& positions) {
    std::uint64_t total = 0;
    for (const std::uint64_t position : positions) total += position;
    return total;
  }

  // The number of rows of a run with codes up to this one, which is known to lie in [low, high].
  [[nodiscard]] std::uint64_t rows_upto(std::size_t run, std::uint64_t code, std::uint64_t low,
                                        std::uint64_t high) const {
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (joined_code_at(runs_[run].keys.keys, runs_[run].type, middle) <= code) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  std::uint64_t greatest_;  // code of this key width
  std::vector<Run> runs_;   // of the left relation, then of the right
};

PairOfRanges ranges_between(const std::vector<std::uint64_t>& begin, const std::vector<std::uint64_t>& end,
                            std::size_t left_runs) {
  PairOfRanges pair;
  for (std::size_t r = 0; r < begin.size(); ++r)
    (r < left_runs ? pair.left : pair.right).push_back({begin[r], std::max(begin[r], end[r])});
  return pair;
}

}  // namespace

std::uint64_t rows_in(const std::vector<RunRange>& ranges) {
  std::uint64_t rows = 0;
  for (const RunRange& range : ranges) rows += range.count();
  return rows;
}

bool is_in_order(const MergePathPartitions& pairs, const SortedRuns& side, bool is_left) {
  if (side.runs.empty() || side.runs.front().count == 0) return true;
  const HostRun& run = side.runs.front();
  const auto range_of = [&](const PairOfRanges& pair) { return (is_left ? pair.left : pair.right).front(); };
  const auto rises = [&](std::uint64_t row) {
    return row == 0 || row >= run.count ||
           joined_code_at(run.keys, side.key_type, row - 1) <= joined_code_at(run.keys, side.key_type, row);
  };
  const auto joins_up = [&](const PairOfRanges& pair) {
    return rises(range_of(pair).begin) && rises(range_of(pair).end);
  };
  const auto is_one_key = [&](const PairOfRanges& pair) {
    return all_join(run.keys, side.key_type, range_of(pair).begin, range_of(pair).end) && joins_up(pair);
  };
  return std::ranges::all_of(pairs.parts, joins_up) && std::ranges::all_of(pairs.taken_out, is_one_key);
}

MergePathPartitions cut_sorted(const SortedRuns& left, const SortedRuns& right, std::size_t parts) {
  std::vector<std::uint64_t> begin, end;
  std::uint64_t total = 0;
  for (const SortedRuns* side : {&left, &right})
    for (const HostRun& run : side->runs) {
      begin.push_back(0);
      end.push_back(run.count);
      total += run.count;
    }
  std::vector<CutOfRuns> cuts(parts - 1);
  const Cutter cutter(left, right);
#pragma omp parallel for schedule(dynamic) num_threads(team())
  for (std::size_t c = 0; c < cuts.size(); ++c) cuts[c] = cutter.cut_at(total * (c + 1) / parts);
  MergePathPartitions result;
  for (const CutOfRuns& cut : cuts) {
    // If several cuts fall into one key, the first one has already taken it out.
    const bool is_known = cut.upto == begin;
    result.parts.push_back(ranges_between(begin,
                                          is_known       ? begin
                                          : cut.is_clean ? cut.upto
                                                         : cut.below,
                                          left.runs.size()));
    if (!is_known && !cut.is_clean) result.taken_out.push_back(ranges_between(cut.below, cut.upto, left.runs.size()));
    begin = cut.upto;
  }
  result.parts.push_back(ranges_between(begin, end, left.runs.size()));
  return result;
}

}  // namespace linkwise
