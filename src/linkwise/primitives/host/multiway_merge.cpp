#include "linkwise/primitives/host/multiway_merge.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <thread>

#include "linkwise/primitives/dispatch.hpp"

namespace linkwise {
namespace {

std::uint64_t total(std::span<const HostRun> runs) {
  std::uint64_t sum = 0;
  for (const HostRun& run : runs) sum += run.count;
  return sum;
}

// Finds the key at the rank by bisecting the key space, then hands out its duplicates in run order.
template <typename Key>
std::vector<std::uint64_t> select(std::span<const HostRun> runs, std::uint64_t rank) {
  const auto keys = [](const HostRun& run) { return std::span(static_cast<const Key*>(run.keys), run.count); };
  const auto at_most = [&](Key key) {
    std::uint64_t sum = 0;
    for (const HostRun& run : runs)
      sum += static_cast<std::uint64_t>(std::ranges::upper_bound(keys(run), key) - keys(run).begin());
    return sum;
  };
  Key low = 0, high = std::numeric_limits<Key>::max();  // the least key with at_most(key) >= rank
  while (low < high) {
    const Key middle = low + (high - low) / 2;
    if (at_most(middle) >= rank) high = middle;
    else low = middle + 1;
  }
  std::vector<std::uint64_t> cuts;
  std::uint64_t below = 0;
  for (const HostRun& run : runs) {
    cuts.push_back(static_cast<std::uint64_t>(std::ranges::lower_bound(keys(run), low) - keys(run).begin()));
    below += cuts.back();
  }
  std::uint64_t missing = rank - below;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto equal =
        static_cast<std::uint64_t>(std::ranges::upper_bound(keys(runs[r]), low) - keys(runs[r]).begin()) - cuts[r];
    const std::uint64_t taken = std::min(missing, equal);
    cuts[r] += taken;
    missing -= taken;
  }
  return cuts;
}

// A tournament of the runs' heads in which every inner node remembers its loser.
template <typename Key>
class LoserTree {
 public:
  struct Cursor {
    const Key* at;
    const Key* end;
  };

  explicit LoserTree(std::vector<Cursor> cursors) : cursors_(std::move(cursors)) {
    leaves_ = std::bit_ceil(std::max<std::size_t>(cursors_.size(), 2));
    cursors_.resize(leaves_, {nullptr, nullptr});
    losers_.resize(leaves_);
    winner_ = play(1);
  }

  [[nodiscard]] std::size_t winner() const { return winner_; }
  [[nodiscard]] Key key() const { return *cursors_[winner_].at; }

  void advance() {
    ++cursors_[winner_].at;
    for (std::size_t node = (winner_ + leaves_) / 2; node > 0; node /= 2)
      if (beats(losers_[node], winner_)) std::swap(losers_[node], winner_);
  }

 private:
  [[nodiscard]] bool beats(std::size_t a, std::size_t b) const {
    const Cursor &x = cursors_[a], &y = cursors_[b];
    if (x.at == x.end) return false;
    if (y.at == y.end) return true;
    return *x.at < *y.at || (*x.at == *y.at && a < b);
  }

  std::size_t play(std::size_t node) {
    if (node >= leaves_) return node - leaves_;
    const std::size_t left = play(2 * node), right = play(2 * node + 1);
    const bool right_wins = beats(right, left);
    losers_[node] = right_wins ? left : right;
    return right_wins ? right : left;
  }

  std::vector<Cursor> cursors_;
  std::vector<std::size_t> losers_;
  std::size_t leaves_ = 0;
  std::size_t winner_ = 0;
};

template <typename Key, typename Value>
void merge_part(std::span<const HostRun> runs, std::span<const std::uint64_t> begin, std::span<const std::uint64_t> end,
                Key* keys, Value* values) {
  std::vector<typename LoserTree<Key>::Cursor> cursors;
  std::vector<const Value*> next_value;
  std::uint64_t count = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto* run_keys = static_cast<const Key*>(runs[r].keys);
    cursors.push_back({run_keys + begin[r], run_keys + end[r]});
    if constexpr (!std::is_same_v<Value, NoValue>)
      next_value.push_back(static_cast<const Value*>(runs[r].values) + begin[r]);
    count += end[r] - begin[r];
  }
  LoserTree<Key> tree(std::move(cursors));
  for (std::uint64_t i = 0; i < count; ++i) {
    keys[i] = tree.key();
    if constexpr (!std::is_same_v<Value, NoValue>) values[i] = *next_value[tree.winner()]++;
    tree.advance();
  }
}

}  // namespace

std::vector<std::uint64_t> multisequence_select(KeyWidth width, std::span<const HostRun> runs, std::uint64_t rank) {
  if (rank > total(runs))
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(total(runs)) + " records");
  std::vector<std::uint64_t> cuts(runs.size(), 0);
  if (rank == 0) return cuts;
  with_key(width, [&](auto key) { cuts = select<typename decltype(key)::type>(runs, rank); });
  return cuts;
}

void multiway_merge(RecordType type, std::span<const HostRun> runs, void* keys, void* values, int threads) {
  constexpr std::uint64_t worthwhile = 1 << 14;  // records that pay for a thread
  const std::uint64_t count = total(runs);
  const std::uint64_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const int parts = threads > 0 ? threads : static_cast<int>(std::clamp<std::uint64_t>(count / worthwhile, 1, cores));
  with_record(type, [&](auto key_tag, auto value_tag) {
    using Key = typename decltype(key_tag)::type;
    using Value = typename decltype(value_tag)::type;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
      const std::uint64_t first = count * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(parts);
      const std::uint64_t last = count * (static_cast<std::uint64_t>(part) + 1) / static_cast<std::uint64_t>(parts);
      const auto begin = multisequence_select(type.key, runs, first), end = multisequence_select(type.key, runs, last);
      Value* part_values = nullptr;
      if constexpr (!std::is_same_v<Value, NoValue>) part_values = static_cast<Value*>(values) + first;
      merge_part(runs, begin, end, static_cast<Key*>(keys) + first, part_values);
    }
  });
}

}  // namespace linkwise
