// The baseline of the CPU's radix sort: libstdc++'s parallel merge sort (sort22 §6: "GNU parallel algorithms
// extension").
#include <omp.h>

#include <cstdint>
#include <parallel/algorithm>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/parallel_sort.hpp"
#include "linkwise/primitives/host/scatter.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

using Merging = __gnu_parallel::multiway_mergesort_tag;

template <typename Key>
struct Numbered {
  Key key;
  std::uint64_t row;
};

// Sorts the keys, each with the number of its row: one sort for values of every width.
template <typename Key>
std::vector<Numbered<Key>> sorted_with_rows(const Key* keys, std::uint64_t count, Merging merging) {
  std::vector<Numbered<Key>> numbered(count);
#pragma omp parallel for num_threads(team())
  for (std::uint64_t i = 0; i < count; ++i) numbered[i] = {keys[i], i};
  __gnu_parallel::stable_sort(
      numbered.begin(), numbered.end(), [](const Numbered<Key>& a, const Numbered<Key>& b) { return a.key < b.key; },
      merging);
  return numbered;
}

template <typename Key, typename Value>
void put_in_order(const std::vector<Numbered<Key>>& numbered, Key* keys, Value* values) {
  const std::uint64_t count = numbered.size();
  const std::vector<Value> from(values, values + count);
#pragma omp parallel for num_threads(team())
  for (std::uint64_t i = 0; i < count; ++i) {
    keys[i] = numbered[i].key;
    values[i] = from[numbered[i].row];
  }
}

}  // namespace

void comparison_sort_on_host(RecordType type, RawRecords records, std::uint64_t count) {
  const Merging merging(static_cast<__gnu_parallel::_ThreadIndex>(team()));
  with_key(type.key, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    auto* const keys = static_cast<Key*>(records.keys);
    if (type.value == ValueWidth::none) return __gnu_parallel::sort(keys, keys + count, merging);
    const std::vector<Numbered<Key>> numbered = sorted_with_rows(keys, count, merging);
    with_value(type.value, [&](auto value) {
      using Value = typename decltype(value)::type;
      if constexpr (has_value<Value>) put_in_order(numbered, keys, static_cast<Value*>(records.values));
    });
  });
}

}  // namespace linkwise
