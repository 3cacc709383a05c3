#include "linkwise/primitives/host/reference_hash_join.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "linkwise/primitives/dispatch.hpp"

namespace linkwise {
namespace {

// Calls body(hash, row, part) for each row of each run.
template <typename Key, typename Body>
void for_rows(const RawHashPass& pass, const Body& body) {
  const std::uint64_t mask = (std::uint64_t{1} << pass.bits) - 1;
  const auto* const keys = static_cast<const Key*>(pass.from.keys);
  for (std::uint32_t run = 0; run < pass.runs.count; ++run) {
    const std::uint64_t begin = pass.runs.begin == nullptr ? 0 : pass.runs.begin[run];
    const std::uint64_t end = pass.runs.begin == nullptr ? pass.rows : pass.runs.end[run];
    for (std::uint64_t row = begin; row < end; ++row) {
      const Key hash = pass.from.hash(keys[row]);
      body(hash, row, std::uint64_t{run % pass.runs.buckets} << pass.bits | (hash >> pass.shift & mask));
    }
  }
}

struct Range {
  std::uint64_t begin, end;
};
Range probed_by(const RawHashMatch& match, HashTask task) {
  const std::uint64_t end = match.probe.begin_of(task.part + 1);
  const std::uint64_t begin =
      std::min(match.probe.begin_of(task.part) + std::uint64_t{task.chunk} * match.task_rows, end);
  return {begin, std::min(begin + match.task_rows, end)};
}

// Calls of_row(row, its matching build rows) for each probe row of each task, and after_task(task's number, number of
// its probe rows) after each task.
template <typename OfRow, typename AfterTask>
void for_matches(const RawHashMatch& match, const OfRow& of_row, const AfterTask& after_task) {
  with_key(match.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    const auto *keys = static_cast<const Key*>(match.probe.keys), *build = static_cast<const Key*>(match.build.keys);
    const auto add_hash = [&](const RawHashSide& side, HashTask task, Key hash, std::uint64_t row, ValueWidth moved,
                              int sum) {
      if (match.checksums != nullptr) match.checksums[sum] += match.seen(hash, side.value(row), moved, task.part);
    };
    if (match.checksums != nullptr) std::fill_n(match.checksums, 2, 0);
    const std::vector<std::uint64_t> nobody;
    for (std::uint32_t number = 0; number < *match.task_count; ++number) {
      const HashTask task = match.tasks[number];
      std::unordered_map<Key, std::vector<std::uint64_t>> table;
      for (std::uint64_t row = match.build.begin_of(task.part); row < match.build.begin_of(task.part + 1); ++row) {
        const Key hash = match.build.hash(build[row]);
        table[hash].push_back(row);
        if (task.chunk == 0) add_hash(match.build, task, hash, row, match.build_moved, 1);
      }
      const Range probed = probed_by(match, task);
      for (std::uint64_t row = probed.begin; row < probed.end; ++row) {
        const Key hash = match.probe.hash(keys[row]);
        add_hash(match.probe, task, hash, row, match.probe_moved, 0);
        const auto found = table.find(hash);
        of_row(row, found == table.end() ? nobody : found->second);
      }
      after_task(number, probed.end - probed.begin);
    }
  });
}

}  // namespace

void count_digits_on_host(const RawHashPass& pass, std::uint64_t* counts) {
  std::fill_n(counts, std::uint64_t{pass.runs.buckets} << pass.bits, 0);
  with_key(pass.type.key, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    for_rows<Key>(pass, [&](Key, std::uint64_t, std::uint64_t part) { ++counts[part]; });
  });
}

void move_to_parts_on_host(const RawHashPass& pass, const std::uint64_t* begin, RawRecords to, std::uint64_t* cursors,
                           std::uint64_t* checksum) {
  std::copy_n(begin, std::uint64_t{pass.runs.buckets} << pass.bits, cursors);
  std::uint64_t sum = 0;
  with_record(pass.type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    if constexpr (!std::is_same_v<Value, Value16>) {
      for_rows<Key>(pass, [&](Key hash, std::uint64_t row, std::uint64_t part) {
        const std::uint64_t at = cursors[part]++;
        static_cast<Key*>(to.keys)[at] = hash;
        if constexpr (std::is_same_v<Value, NoValue>) {
          sum += record_hash(hash, NoValue{});
        } else {
          const auto moved = static_cast<Value>(pass.from.value(row));
          static_cast<Value*>(to.values)[at] = moved;
          sum += record_hash(hash, moved);
        }
      });
    }
  });
  if (checksum != nullptr) *checksum = sum;
}

void compare_samples_on_host(const RawSamples& samples, SeenKeys* seen) {
  const auto slot_of = [&](std::uint64_t* table, std::uint64_t tag) -> std::uint64_t& {
    std::uint32_t at = samples.first_slot(tag);
    while (table[at] != 0 && !RawSamples::is_of(table[at], tag)) at = samples.next_slot(at);
    return table[at];
  };
  std::fill_n(samples.build_table, samples.slots, 0);
  std::fill_n(samples.probe_table, samples.slots, 0);
  *seen = {};
  with_key(samples.width, [&](auto key) {
    using Key = typename decltype(key)::type;
    const auto add = [&](const void* codes, std::uint64_t i, std::uint64_t* table, std::uint64_t& most) {
      const std::uint64_t tag = samples.tag(static_cast<const Key*>(codes)[i]);
      std::uint64_t& slot = slot_of(table, tag);
      slot = tag | (RawSamples::times(slot) + 1);
      most = std::max(most, RawSamples::times(slot));
      return tag;
    };
    for (std::uint64_t i = 0; i < samples.build_count; ++i)
      add(samples.build, i, samples.build_table, seen->build_most);
    for (std::uint64_t i = 0; i < samples.probe_count; ++i)
      seen->pairs +=
          RawSamples::times(slot_of(samples.build_table, add(samples.probe, i, samples.probe_table, seen->probe_most)));
    for (std::uint64_t i = 0; i < samples.probe_count; ++i) {
      const std::uint64_t tag = samples.tag(static_cast<const Key*>(samples.probe)[i]);
      seen->probe_repeated += RawSamples::times(slot_of(samples.probe_table, tag)) > 1 ? 1 : 0;
    }
  });
}

void list_hash_tasks_on_host(const RawHashTasks& list) {
  *list.count = 0;
  for (std::uint32_t part = 0; part < list.parts; ++part) {
    const std::uint64_t probing = list.probe.begin_of(part + 1) - list.probe.begin_of(part);
    const std::uint64_t build = list.build.begin_of(part + 1) - list.build.begin_of(part);
    if ((probing == 0 && !(list.without_probe && build > 0)) || (build == 0 && !list.without_build)) continue;
    const std::uint64_t chunks = std::max<std::uint64_t>((probing + list.task_rows - 1) / list.task_rows, 1);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) list.tasks[(*list.count)++] = {part, chunk};
  }
}

void count_hash_matches_on_host(const RawHashMatch& match, const RawHashCount& count) {
  *count.totals = {};
  std::fill_n(count.emitted, match.most_tasks, 0);
  if (match.met != nullptr) std::fill_n(match.met, match.build.count, 0);
  std::uint64_t pairs = 0, matched = 0;
  for_matches(
      match,
      [&](std::uint64_t row, const std::vector<std::uint64_t>& found) {
        if (found.empty()) return;
        pairs += found.size();
        ++matched;
        if (count.adds_values) count.totals->probe_sum += found.size() * match.probe.value(row);
        for (const std::uint64_t other : found) {
          if (count.adds_values) count.totals->build_sum += match.build.value(other);
          if (match.met != nullptr) match.met[other] = 1;
        }
      },
      [&](std::uint32_t task, std::uint64_t probing) {
        count.emitted[task] = rows_of_task(match.emission, probing, pairs, matched);
        count.totals->matches += std::exchange(pairs, 0);
        count.totals->matched_rows += std::exchange(matched, 0);
      });
}

void write_hash_matches_on_host(const RawHashMatch& match, const RawHashRows& rows) {
  const bool writes_pairs = !asks_whether(match.emission);
  std::uint64_t task = 0, at = rows.offsets[0];
  const auto write = [&](std::uint64_t row, std::uint64_t of_build) {
    rows.probe.set(at, match.probe.value(row));
    rows.build.set(at++, of_build);
  };
  for_matches(
      match,
      [&](std::uint64_t row, const std::vector<std::uint64_t>& found) {
        if (writes_pairs)
          for (const std::uint64_t other : found) write(row, match.build.value(other));
        const bool is_alone = found.empty();
        if ((match.emission == Emission::one_if_matched && !is_alone) ||
            (match.emission != Emission::one_if_matched && match.emission != Emission::pairs && is_alone))
          write(row, ~std::uint64_t{0});
      },
      [&](std::uint32_t, std::uint64_t) { at = rows.offsets[++task]; });
}

void take_hash_rest_on_host(const RawHashRest& rest) {
  *rest.taken = 0;
  for (std::uint64_t row = 0; row < rest.build.count; ++row) {
    if ((rest.met[row] != 0) != rest.wants_met) continue;
    const std::uint64_t at = rest.first + (*rest.taken)++;
    rest.to_build.set(at, rest.build.value(row));
    rest.to_probe.set(at, ~std::uint64_t{0});
  }
}

}  // namespace linkwise
