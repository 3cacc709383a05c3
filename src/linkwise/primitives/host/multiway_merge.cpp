#include "linkwise/primitives/host/multiway_merge.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/team.hpp"

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

// One of two, without a branch, which would often be mispredicted.
template <typename Word>
Word pick(bool second, Word first_word, Word second_word) {
  return static_cast<Word>(first_word ^ ((first_word ^ second_word) & static_cast<Word>(-static_cast<Word>(second))));
}
Value16 pick(bool second, const Value16& first_value, const Value16& second_value) {
  return {pick(second, first_value.low, second_value.low), pick(second, first_value.high, second_value.high)};
}

// A node of a binary tree of two-way merges: a leaf is a run, an inner node merges its children into a block that
// stays in a core's caches. While neither child can run out, a step has no branch that depends on the data.
template <typename Key, typename Value>
class MergeNode {
 public:
  MergeNode(const Key* keys, const Value* values, std::uint64_t count)
      : keys_(keys), values_(values), left_over_(count) {}
  MergeNode(std::unique_ptr<MergeNode> left, std::unique_ptr<MergeNode> right)
      : left_(std::move(left)), right_(std::move(right)), key_block_(block), value_block_(has_value ? block : 0) {}

  /// Writes the next `wanted` records, or as many as are left; returns how many.
  std::uint64_t produce(Key* keys, Value* values, std::uint64_t wanted) {
    if (!left_) return take_from(*this, keys, values, wanted);
    std::uint64_t made = 0;
    while (made < wanted) {
      left_->refill();
      right_->refill();
      Value* value_target = has_value ? values + made : nullptr;
      const std::uint64_t steps = std::min({wanted - made, left_->left_over_, right_->left_over_});
      const std::uint64_t done =
          steps > 0 ? merge_steps(keys + made, value_target, steps)
                    : take_from(left_->left_over_ > 0 ? *left_ : *right_, keys + made, value_target, wanted - made);
      if (done == 0) break;
      made += done;
    }
    return made;
  }

 private:
  static constexpr bool has_value = !std::is_same_v<Value, NoValue>;
  static constexpr std::uint64_t block = 2048;

  // Refills an inner node's block if it is used up.
  void refill() {
    if (left_over_ > 0 || !left_) return;
    keys_ = key_block_.data();
    values_ = value_block_.data();
    left_over_ = produce(key_block_.data(), value_block_.data(), block);
  }

  static std::uint64_t take_from(MergeNode& node, Key* keys, Value* values, std::uint64_t wanted) {
    const std::uint64_t count = std::min(wanted, node.left_over_);
    std::copy_n(node.keys_, count, keys);
    if constexpr (has_value) std::copy_n(node.values_, count, values);
    node.advance(count);
    return count;
  }

  // From both ends, as two merges that do not wait for each other. Of equal keys the left one comes first.
  std::uint64_t merge_steps(Key* keys, Value* values, std::uint64_t steps) {
    const Key *const left = left_->keys_, *const right = right_->keys_;
    const auto take = [&](bool is_right, std::uint64_t of_left, std::uint64_t of_right, std::uint64_t to) {
      keys[to] = pick(is_right, left[of_left], right[of_right]);
      if constexpr (has_value) values[to] = pick(is_right, left_->values_[of_left], right_->values_[of_right]);
    };
    const std::uint64_t all_of_left = left_of_first(steps);
    // How many of the left child's records are taken in front, and how many are left for there.
    std::uint64_t first = 0, last = all_of_left;
    const auto take_first = [&](std::uint64_t to) {
      const bool is_right = right[to - first] < left[first];
      take(is_right, first, to - first, to);
      first += is_right ? 0 : 1;
    };
    const auto take_last = [&](std::uint64_t to) {
      const bool is_right = !(right[to - last] < left[last - 1]);
      take(is_right, last - 1, to - last, to);
      last -= is_right ? 0 : 1;
    };
    const std::uint64_t from_end = std::min({steps / 2, all_of_left, steps - all_of_left});  // so that neither runs out
    for (std::uint64_t i = 0; i < from_end; ++i) {
      take_first(i);
      take_last(steps - 1 - i);
    }
    for (std::uint64_t i = from_end; i < steps - from_end; ++i) take_first(i);
    left_->advance(all_of_left);
    right_->advance(steps - all_of_left);
    return steps;
  }

  // How many of the first `count` records are the left child's; each child has as many.
  [[nodiscard]] std::uint64_t left_of_first(std::uint64_t count) const {
    std::uint64_t low = 0, high = count;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (right_->keys_[count - middle - 1] < left_->keys_[middle]) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  void advance(std::uint64_t count) {
    keys_ += count;
    if constexpr (has_value) values_ += count;
    left_over_ -= count;
  }

  const Key* keys_ = nullptr;  // the rest of the run or of the block
  const Value* values_ = nullptr;
  std::uint64_t left_over_ = 0;
  std::unique_ptr<MergeNode> left_, right_;  // none in a leaf
  std::vector<Key> key_block_;
  std::vector<Value> value_block_;
};

template <typename Key, typename Value>
std::unique_ptr<MergeNode<Key, Value>> merge_tree(std::span<std::unique_ptr<MergeNode<Key, Value>>> leaves) {
  if (leaves.size() == 1) return std::move(leaves.front());
  const std::size_t half = leaves.size() / 2;
  return std::make_unique<MergeNode<Key, Value>>(merge_tree(leaves.first(half)), merge_tree(leaves.subspan(half)));
}

template <typename Key, typename Value>
void merge_part(std::span<const HostRun> runs, std::span<const std::uint64_t> begin, std::span<const std::uint64_t> end,
                Key* keys, Value* values) {
  std::vector<std::unique_ptr<MergeNode<Key, Value>>> leaves;
  std::uint64_t count = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (begin[r] == end[r]) continue;
    const auto* run_values = static_cast<const Value*>(runs[r].values);
    if constexpr (!std::is_same_v<Value, NoValue>) run_values += begin[r];
    leaves.push_back(std::make_unique<MergeNode<Key, Value>>(static_cast<const Key*>(runs[r].keys) + begin[r],
                                                             run_values, end[r] - begin[r]));
    count += end[r] - begin[r];
  }
  if (!leaves.empty()) merge_tree(std::span(leaves))->produce(keys, values, count);
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

void multiway_merge(RecordType type, std::span<const HostRun> runs, void* keys, void* values, int parts) {
  constexpr std::uint64_t worthwhile = 1 << 14;  // records for which a thread pays off
  const std::uint64_t count = total(runs);
  if (parts <= 0) parts = static_cast<int>(std::clamp<std::uint64_t>(count / worthwhile, 1, team()));
  with_record(type, [&](auto key_tag, auto value_tag) {
    using Key = typename decltype(key_tag)::type;
    using Value = typename decltype(value_tag)::type;
#pragma omp parallel for num_threads(team_if(parts > 1)) schedule(static, 1)
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
