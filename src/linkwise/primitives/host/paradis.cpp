#include "linkwise/primitives/host/paradis.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/scatter.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 16;  // keys from which several threads pay off
constexpr std::uint64_t few = 64;              // keys; so few are sorted by insertion

/// What is left to permute of each bucket, or of a thread's stripe of it: [head, tail).
struct Ranges {
  std::array<std::uint64_t, digits> head{}, tail{};
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (std::size_t d = 0; d < digits; ++d) sum += tail[d] - head[d];
    return sum;
  }
};

template <typename Key>
class Paradis {
 public:
  explicit Paradis(Key* keys) : keys_(keys) {}

  /// Sorts by this digit and all lower ones. With `threads` 1, other threads may sort other ranges meanwhile.
  void sort(std::uint64_t begin, std::uint64_t end, int shift, int threads) {
    if (end - begin <= few) return insert_each(begin, end);
    const Ranges buckets = buckets_of(begin, end, shift, threads);
    permute(buckets, shift, threads);
    if (shift == 0) return;
    const int next = std::max(shift - digit_bits, 0);
    const std::uint64_t large = threads == 1 ? end : std::max(worthwhile, (end - begin) / (2 * std::uint64_t(threads)));
    const auto is_large = [&](std::size_t d) { return buckets.tail[d] - buckets.head[d] > large; };
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (std::size_t d = 0; d < digits; ++d)
      if (!is_large(d)) sort(buckets.head[d], buckets.tail[d], next, 1);
    for (std::size_t d = 0; d < digits; ++d)
      if (is_large(d)) sort(buckets.head[d], buckets.tail[d], next, threads);
  }

 private:
  [[nodiscard]] static std::size_t digit(Key key, int shift) { return static_cast<std::size_t>(digit_of(key, shift)); }

  void insert_each(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin + 1; i < end; ++i) {
      const Key key = keys_[i];
      std::uint64_t to = i;
      for (; to > begin && key < keys_[to - 1]; --to) keys_[to] = keys_[to - 1];
      keys_[to] = key;
    }
  }

  Ranges buckets_of(std::uint64_t begin, std::uint64_t end, int shift, int threads) const {
    std::vector<Counts> of_thread(static_cast<std::size_t>(threads), Counts{});
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; ++t) {
      const std::uint64_t part = end - begin;
      for (std::uint64_t i = begin + part * t / threads; i < begin + part * (t + 1) / threads; ++i)
        ++of_thread[static_cast<std::size_t>(t)][digit(keys_[i], shift)];
    }
    Ranges buckets;
    std::uint64_t sum = begin;
    for (std::size_t d = 0; d < digits; ++d) {
      buckets.head[d] = sum;
      for (const Counts& counts : of_thread) sum += counts[d];
      buckets.tail[d] = sum;
    }
    return buckets;
  }

  // The paper's algorithm 2: rounds of speculative permutation and repair.
  void permute(const Ranges& buckets, int shift, int threads) {
    Ranges left = buckets;
    while (left.count() > 0) {
      const int active = left.count() < worthwhile ? 1 : threads;
      std::vector<Ranges> stripes(static_cast<std::size_t>(active));
      for (std::size_t d = 0; d < digits; ++d)
        for (int t = 0; t < active; ++t) {
          const std::uint64_t width = left.tail[d] - left.head[d];
          stripes[static_cast<std::size_t>(t)].head[d] = left.head[d] + width * t / active;
          stripes[static_cast<std::size_t>(t)].tail[d] = left.head[d] + width * (t + 1) / active;
        }
      std::vector<Ranges> ends = stripes;  // their heads advance
#pragma omp parallel for num_threads(active) if (active > 1)
      for (int t = 0; t < active; ++t) permute_stripes(ends[static_cast<std::size_t>(t)], shift);
#pragma omp parallel for schedule(dynamic) num_threads(active) if (active > 1)
      for (std::size_t d = 0; d < digits; ++d) left.head[d] = repair(d, ends, left.tail[d], shift);
    }
  }

  // Algorithm 3: each key goes to the next place of its bucket's stripe, while there is one.
  void permute_stripes(Ranges& stripes, int shift) {
    for (std::size_t d = 0; d < digits; ++d) {
      std::uint64_t head = stripes.head[d];
      while (head < stripes.tail[d]) {
        Key key = keys_[head];
        std::size_t of = digit(key, shift);
        while (of != d && stripes.head[of] < stripes.tail[of]) {
          std::swap(key, keys_[stripes.head[of]++]);
          of = digit(key, shift);
        }
        if (of == d) {
          keys_[head++] = keys_[stripes.head[d]];
          keys_[stripes.head[d]++] = key;
        } else {
          keys_[head++] = key;
        }
      }
    }
  }

  // Algorithm 4: misplaced keys of a bucket are swapped with keys behind them that belong there. Returns where the
  // remaining misplaced keys begin.
  std::uint64_t repair(std::size_t d, const std::vector<Ranges>& stripes, std::uint64_t end, int shift) {
    std::uint64_t tail = end;
    for (const Ranges& stripe : stripes) {
      for (std::uint64_t head = stripe.head[d]; head < stripe.tail[d] && head < tail; ++head) {
        if (digit(keys_[head], shift) == d) continue;
        while (head < tail) {
          if (digit(keys_[--tail], shift) != d) continue;
          std::swap(keys_[head], keys_[tail]);
          break;
        }
      }
    }
    return tail;
  }

  Key* keys_;
};

}  // namespace

void paradis_sort_on_host(KeyWidth width, void* keys, std::uint64_t count) {
  with_key(width, [&](auto key) {
    using Key = typename decltype(key)::type;
    auto* const first = static_cast<Key*>(keys);
    const Key most = count == 0 ? 0 : *std::max_element(first, first + count);
    const int shift = std::max(static_cast<int>(std::bit_width(most)) - digit_bits, 0);
    Paradis<Key>(first).sort(0, count, shift, team_if(count >= worthwhile));
  });
}

}  // namespace linkwise
